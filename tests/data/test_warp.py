"""Warps, image by image against Pillow; boxes against what they promise."""

from __future__ import annotations

import math

import pytest
import torch
from PIL import Image

from tests.support.pillow import apart, each, pictures
from vixformer.data.warp import RATIO, _boxes, random_erase, random_resized_crop, warp


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("channels", [1, 3])
def test_any_affine_map_is_that_of_pillow(channels: int) -> None:
    x = pictures(channels=channels)
    matrix = torch.eye(2, 3) + 0.4 * (torch.rand(len(x), 2, 3, generator=generator()) - 0.5)
    matrix[:, :, 2] *= 20

    def pillow(image: Image.Image, i: int) -> Image.Image:
        fill = (128,) * channels if channels > 1 else 128
        return image.transform(
            image.size, Image.Transform.AFFINE, matrix[i].flatten().tolist(), Image.Resampling.BILINEAR, fillcolor=fill
        )

    theirs, ours = each(x, pillow), warp(x, matrix, fill=128)
    assert (ours.int() - theirs.int()).abs().le(1).float().mean() > 0.999  # places on the very border may differ
    assert (theirs == 128).float().mean() > 0.05


def test_nearest_makes_no_new_level() -> None:
    x = pictures() // 64 * 64
    turned = torch.tensor([[0.9, 0.2, 1.0], [-0.2, 0.9, 2.0]]).expand(len(x), 2, 3)
    assert set(warp(x, turned, "nearest").unique().tolist()) <= set(x.unique().tolist())


def test_a_random_resized_crop_is_that_of_pillow() -> None:
    x = pictures(40)
    height, width = x.shape[-2:]
    boxes = _boxes(len(x), height, width, (0.2, 0.9), RATIO, generator(4)).tolist()

    def pillow(image: Image.Image, i: int) -> Image.Image:
        left, top, w, h = boxes[i]
        return image.resize((width, height), Image.Resampling.BILINEAR, box=(left, top, left + w, top + h))

    assert apart(random_resized_crop(x, (0.2, 0.9), generator(4)), each(x, pillow)) <= 1


def test_boxes_keep_their_promises() -> None:
    left, top, w, h = _boxes(5000, 40, 40, (0.1, 0.6), RATIO, generator()).unbind(1)
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (left + w <= 40).all()
    assert (top + h <= 40).all()
    area, shape = w * h / 1600, w / h
    assert 0.08 < area.min() < 0.12
    assert 0.57 < area.max() < 0.63
    assert abs(float(area.mean()) - 0.35) < 0.02
    assert 0.65 < shape.min() < 0.8
    assert abs(float(shape.log().mean())) < 0.02  # as often upright as lying
    assert (left == 0).any()
    assert (left + w == 40).any()
    whole = _boxes(50, 4, 64, (0.9, 1.0), RATIO, generator())  # no such box fits
    assert (whole == torch.tensor([0.0, 0, 64, 4])).all()


def test_a_box_is_erased_in_a_share_of_the_images() -> None:
    x = torch.ones(2000, 2, 24, 30)
    out = random_erase(x, 0.4, generator())
    assert torch.equal(x, torch.ones_like(x))
    gone = out == 0
    assert set(out.unique().tolist()) == {0.0, 1.0}
    touched = gone.flatten(1).any(1)
    assert 0.36 < touched.float().mean() < 0.44
    area = gone[touched][:, 0].float().mean((1, 2))
    assert 0.01 < area.min() < 0.04
    assert 0.3 < area.max() < 0.36
    for box in gone[touched][:50]:
        rows, columns = box[0].any(1).nonzero().flatten(), box[0].any(0).nonzero().flatten()
        inside = box[:, rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert inside.all()  # a box, in all channels
        assert int(inside[0].sum()) == int(box[0].sum())
    assert torch.equal(random_erase(x, 0.0, generator()), x)
    long = random_erase(torch.ones(500, 1, 8, 256), 1.0, generator()).flatten(1).mean(1)
    assert long.min() > 0.5  # where no box fits, the image is not erased as a whole
    assert (long < 1).any()
    assert math.isclose(float(random_erase(x, 1.0, generator()).flatten(1).amin(1).sum()), 0.0)
