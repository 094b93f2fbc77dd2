"""RandAugment and AutoAugment: each operation against Pillow, and how often each one comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from tests.support.pillow import each, pictures
from vixformer.data.policies import CIFAR, OPERATIONS, auto_augment, operate, rand_augment

STRENGTH = torch.linspace(0.1, 1.0, 12)
SIGN = torch.tensor([1.0, -1.0]).repeat(6)
SIGNED = (STRENGTH * SIGN).tolist()


def affine(*matrix: float) -> Callable[[Image.Image], Image.Image]:
    return lambda image: image.transform(
        image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=(128, 128, 128)
    )


def enhanced(kind: type) -> Callable[[Image.Image, int], Image.Image]:
    return lambda image, i: kind(image).enhance(1 + 0.9 * SIGNED[i])


REFERENCE: dict[str, Callable[[Image.Image, int], Image.Image]] = {
    "identity": lambda image, _: image,
    "shear-x": lambda image, i: affine(1, 0.3 * SIGNED[i], 0, 0, 1, 0)(image),
    "shear-y": lambda image, i: affine(1, 0, 0, 0.3 * SIGNED[i], 1, 0)(image),
    "translate-x": lambda image, i: affine(1, 0, 150 / 331 * image.width * SIGNED[i], 0, 1, 0)(image),
    "translate-y": lambda image, i: affine(1, 0, 0, 0, 1, 150 / 331 * image.height * SIGNED[i])(image),
    "rotate": lambda image, i: image.rotate(30 * SIGNED[i], Image.Resampling.BILINEAR, fillcolor=(128, 128, 128)),
    "brightness": enhanced(ImageEnhance.Brightness),
    "saturation": enhanced(ImageEnhance.Color),
    "contrast": enhanced(ImageEnhance.Contrast),
    "sharpness": enhanced(ImageEnhance.Sharpness),
    "posterize": lambda image, i: ImageOps.posterize(image, 8 - round(4 * float(STRENGTH[i]))),
    "solarize": lambda image, i: ImageOps.solarize(image, 255 * (1 - float(STRENGTH[i]))),  # pyright: ignore
    "stretch": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "invert": lambda image, _: ImageOps.invert(image),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_that_of_pillow(name: str) -> None:
    x = pictures()
    which = torch.full((len(x),), OPERATIONS.index(name))
    ours, theirs = operate(x, which, STRENGTH, SIGN), each(x, REFERENCE[name])
    assert (ours.int() - theirs.int()).abs().le(1).float().mean() > 0.998  # places on the very border may differ
    if name != "identity":
        assert not torch.equal(ours, x)


def test_each_image_gets_its_own() -> None:
    x = pictures(15)
    mixed = operate(x, torch.arange(15), torch.full((15,), 0.7), torch.ones(15))
    for i in range(15):
        alone = operate(x[i : i + 1], torch.tensor([i]), torch.tensor([0.7]), torch.ones(1))
        assert torch.equal(mixed[i], alone[0])


def test_rand_augment() -> None:
    x = pictures(300)
    before, generator = x.clone(), torch.Generator().manual_seed(0)
    out = rand_augment(x, 2, 9, generator)
    assert torch.equal(x, before)
    same = [torch.equal(a, b) for a, b in zip(out, x, strict=True)]
    assert 0 < sum(same) / len(same) < 0.1  # identity twice, or what changes nothing
    again = rand_augment(x, 2, 9, torch.Generator().manual_seed(0))
    assert torch.equal(out, again)
    weak = (rand_augment(x, 1, 1, generator).int() - x.int()).abs().float().mean()
    strong = (rand_augment(x, 1, 25, generator).int() - x.int()).abs().float().mean()
    assert weak < strong
    assert rand_augment(pictures(channels=1), 2, 9, generator).shape == pictures(channels=1).shape


def test_auto_augment() -> None:
    assert len(CIFAR) == 25
    assert all(name in OPERATIONS and 0 <= share <= 1 and 0 <= s <= 9 for pair in CIFAR for name, share, s in pair)
    x = pictures(300)
    out = auto_augment(x, torch.Generator().manual_seed(0))
    changed = [not torch.equal(a, b) for a, b in zip(out, x, strict=True)]
    assert 0.6 < sum(changed) / len(changed) < 1.0
    assert out.dtype == torch.uint8
