"""Colors, image by image against Pillow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from tests.support.pillow import apart, each, pictures
from vixformer.data import colors

FACTORS = torch.linspace(0.05, 1.95, 12)
ENHANCED: dict[str, tuple[Callable[[Tensor], Tensor], type]] = {
    "brightness": (lambda x: colors.looked_up(x, colors.brightness(FACTORS)), ImageEnhance.Brightness),
    "contrast": (lambda x: colors.looked_up(x, colors.contrast(x, FACTORS)), ImageEnhance.Contrast),
    "saturation": (lambda x: colors.saturation(x, FACTORS), ImageEnhance.Color),
    "sharpness": (lambda x: colors.sharpness(x, FACTORS), ImageEnhance.Sharpness),
}
BITS = torch.arange(12) % 8 + 1.0
THRESHOLDS = torch.linspace(0, 250, 12).floor()
REPLACED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Image.Image, int], Image.Image]]] = {
    "invert": (colors.inverted, lambda image, _: ImageOps.invert(image)),
    "solarize": (
        lambda _: colors.solarized(THRESHOLDS),
        lambda image, i: ImageOps.solarize(image, int(THRESHOLDS[i])),
    ),
    "posterize": (lambda _: colors.posterized(BITS), lambda image, i: ImageOps.posterize(image, int(BITS[i]))),
    "stretch": (colors.stretched, lambda image, _: ImageOps.autocontrast(image)),
    "equalize": (colors.equalized, lambda image, _: ImageOps.equalize(image)),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ENHANCED)
def test_enhancements(name: str, channels: int) -> None:
    x = pictures(channels=channels)
    ours, theirs = ENHANCED[name]
    assert apart(ours(x), each(x, lambda image, i: theirs(image).enhance(float(FACTORS[i])))) <= 1


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", REPLACED)
def test_tables(name: str, channels: int) -> None:
    x = pictures(channels=channels)
    x[0] = 77  # one level alone stays as it is
    ours, theirs = REPLACED[name]
    assert apart(colors.looked_up(x, ours(x)), each(x, theirs)) <= (1 if name == "stretch" else 0)


def test_jitter_is_between_its_factors() -> None:
    x = pictures(600)
    before, generator = x.clone(), torch.Generator().manual_seed(0)
    out = colors.jitter(x, 0.4, generator)
    assert torch.equal(x, before)
    ratio = out.float().mean((1, 2, 3)) / x.float().mean((1, 2, 3))
    assert 0.55 < ratio.min() < 0.7
    assert 1.3 < ratio.max() < 1.45
    assert abs(float(ratio.mean()) - 1) < 0.03
    assert apart(colors.jitter(x, 1e-6, generator), x) <= 3  # each step cuts off, as in Pillow
    assert colors.jitter(pictures(channels=1), 0.4, generator).shape[1] == 1
