"""Batches warped by a map of their own for every image: random resized crops, rotations, shears and shifts."""
# B images  C channels

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

RATIO = 3 / 4, 4 / 3
"""Width of a crop relative to its height, least and most."""
TRIES = 10
"""Boxes that are drawn for each image; the first that fits into it counts."""


def warp(pixels: Tensor, matrix: Tensor, interpolation: str = "bilinear", fill: float | None = None) -> Tensor:
    """Each image seen through its (2, 3) of `matrix`, which takes places of the result to places of the image, in
    pixels, as Pillow's AFFINE does.

    Places outside the image are `fill`, or else the pixel of the border that is nearest.
    """
    _, _, height, width = pixels.shape
    x = torch.arange(width, device=pixels.device) + 0.5
    y = (torch.arange(height, device=pixels.device) + 0.5).unsqueeze(1)
    across, down = (m[:, 0] * x + m[:, 1] * y + m[:, 2] for m in matrix[..., None, None].unbind(1))
    places = torch.stack([across * (2 / width) - 1, down * (2 / height) - 1], -1)
    out = F.grid_sample(pixels.float(), places, interpolation, "border", align_corners=False)
    if fill is not None:
        outside = (across < 0) | (across >= width) | (down < 0) | (down >= height)
        out = out.masked_fill(outside.unsqueeze(1), fill)
    return out if pixels.is_floating_point() else out.round_().to(pixels.dtype)


def random_resized_crop(pixels: Tensor, scale: tuple[float, float], generator: torch.Generator) -> Tensor:
    """A box of each image, with `scale` of its area and another shape, brought to the size of the image
    (arXiv:1409.4842)."""
    b, _, height, width = pixels.shape
    box = _boxes(b, height, width, scale, RATIO, generator)
    left, top, w, h = box.to(pixels.device).unbind(1)
    zero = torch.zeros_like(left)
    matrix = torch.stack([w / width, zero, left, zero, h / height, top], 1).view(b, 2, 3)
    return warp(pixels, matrix)


def random_erase(images: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """In `share` of the images, a box of 2 to 33 % of the area becomes 0, which is the mean color of normalized images
    (arXiv:1708.04896). Where no box that was drawn fits into an elongated image, nothing does."""
    b, _, height, width = images.shape
    chosen = torch.rand(b, generator=generator) < share
    left, top, w, h = _boxes(b, height, width, (0.02, 1 / 3), (0.3, 1 / 0.3), generator).long().unbind(1)
    chosen &= (w < width) | (h < height)
    w, h = torch.where(chosen, w, 0), torch.where(chosen, h, 0)
    across, down = (
        ((places >= start.unsqueeze(1)) & (places < (start + length).unsqueeze(1))).to(images.device)
        for places, start, length in ((torch.arange(width), left, w), (torch.arange(height), top, h))
    )
    return images.masked_fill((down.unsqueeze(2) & across.unsqueeze(1)).unsqueeze(1), 0)


def _boxes(
    b: int, height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float], generator: torch.Generator
) -> Tensor:
    """(B, 4): left, top, width and height in whole pixels. Where none of the drawn shapes fits, the whole image."""
    area, shape, left, top = torch.rand(4, b, TRIES, generator=generator)
    area = (scale[0] + (scale[1] - scale[0]) * area) * height * width
    shape = torch.exp(math.log(ratio[0]) + math.log(ratio[1] / ratio[0]) * shape)
    w, h = (area * shape).sqrt().round(), (area / shape).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.int().argmax(1, keepdim=True)
    w, h, left, top, fits = (t.gather(1, first).squeeze(1) for t in (w, h, left, top, fits))
    w, h = torch.where(fits, w, width), torch.where(fits, h, height)
    return torch.stack([(left * (width - w + 1)).floor(), (top * (height - h + 1)).floor(), w, h], 1)
