"""RandAugment (arXiv:1909.13719) and AutoAugment for CIFAR (arXiv:1805.09501): other operations on every image of a
batch."""
# B images

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vixformer.data.colors import (
    brightness,
    contrast,
    equalized,
    inverted,
    looked_up,
    posterized,
    saturation,
    sharpness,
    solarized,
    stretched,
)
from vixformer.data.warp import warp

OPERATIONS = (
    "identity", "shear-x", "shear-y", "translate-x", "translate-y", "rotate", "brightness", "saturation", "contrast",
    "sharpness", "posterize", "solarize", "stretch", "equalize", "invert",
)  # fmt: skip
"""RandAugment has all of these but the last."""
STRONGEST = 30
"""The magnitude at which an operation is as strong as it gets."""
SHEAR, SHIFT, DEGREES, ENHANCED, BITS = 0.3, 150 / 331, 30.0, 0.9, 4
"""At that magnitude: pixels a row, a part of the side, an angle, a factor of 1 +- this, and bits that are lost."""
FILL = 128
TABLES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "brightness": lambda _, signed, __: brightness(1 + ENHANCED * signed),
    "contrast": lambda pixels, signed, _: contrast(pixels, 1 + ENHANCED * signed),
    "posterize": lambda _, __, strength: posterized(8 - (BITS * strength).round()),
    "solarize": lambda _, __, strength: solarized(255 * (1 - strength)),
    "stretch": lambda pixels, _, __: stretched(pixels),
    "equalize": lambda pixels, _, __: equalized(pixels),
    "invert": lambda pixels, _, __: inverted(pixels),
}
"""Operations that give each level another: images, strength with a sign, and strength from 0 to 1."""
BLENDS = {"saturation": saturation, "sharpness": sharpness}
CIFAR = (
    (("invert", 0.1, 0), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate-x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear-y", 0.5, 8), ("translate-y", 0.7, 9)),
    (("stretch", 0.5, 0), ("equalize", 0.9, 0)),
    (("shear-y", 0.2, 7), ("posterize", 0.3, 7)),
    (("saturation", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 0), ("equalize", 0.5, 0)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("saturation", 0.7, 7), ("translate-x", 0.5, 8)),
    (("equalize", 0.3, 0), ("stretch", 0.4, 0)),
    (("translate-y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("saturation", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 0)),
    (("equalize", 0.2, 0), ("stretch", 0.6, 0)),
    (("equalize", 0.2, 0), ("equalize", 0.6, 0)),
    (("saturation", 0.9, 9), ("equalize", 0.6, 0)),
    (("stretch", 0.8, 0), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("saturation", 0.7, 0)),
    (("solarize", 0.4, 5), ("stretch", 0.9, 0)),
    (("translate-y", 0.9, 9), ("translate-y", 0.7, 9)),
    (("stretch", 0.9, 0), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 0), ("invert", 0.1, 0)),
    (("translate-y", 0.7, 9), ("stretch", 0.9, 0)),
)
"""Its 25 pairs for CIFAR: operation, probability, and strength from 0 to 9."""


def rand_augment(
    pixels: Tensor, operations: int, magnitude: float, generator: torch.Generator, interpolation: str = "bilinear"
) -> Tensor:
    """This number of operations on each image, of one strength (0 to 30)."""
    b = len(pixels)
    for _ in range(operations):
        which = torch.randint(len(OPERATIONS) - 1, (b,), generator=generator)
        sign = 2.0 * torch.randint(2, (b,), generator=generator) - 1
        pixels = operate(pixels, which, torch.full((b,), magnitude / STRONGEST), sign, interpolation)
    return pixels


def auto_augment(pixels: Tensor, generator: torch.Generator, interpolation: str = "bilinear") -> Tensor:
    """One of the pairs on each image, each operation with its probability."""
    b = len(pixels)
    pair = torch.randint(len(CIFAR), (b,), generator=generator)
    for slot in range(2):
        which = torch.tensor([OPERATIONS.index(steps[slot][0]) for steps in CIFAR])[pair]
        share = torch.tensor([steps[slot][1] for steps in CIFAR])[pair]
        strength = torch.tensor([steps[slot][2] / 9 for steps in CIFAR])[pair]
        done, sign = torch.rand(2, b, generator=generator)
        which = torch.where(done < share, which, 0)
        pixels = operate(pixels, which, strength, torch.where(sign < 0.5, -1.0, 1.0), interpolation)
    return pixels


def operate(pixels: Tensor, which: Tensor, strength: Tensor, sign: Tensor, interpolation: str = "bilinear") -> Tensor:
    """On each of uint8 (B, C, height, width) the operation `which` (B,) of OPERATIONS, with a strength from 0 to 1."""
    out, signed = pixels.clone(), strength * sign
    moved = ((which >= 1) & (which <= 5)).nonzero().flatten()
    if len(moved):
        matrix = _matrices(which[moved], signed[moved], pixels.shape[-2], pixels.shape[-1])
        out[moved] = warp(pixels[moved], matrix.to(pixels.device), interpolation, FILL)
    for number, name in enumerate(OPERATIONS):
        index = (which == number).nonzero().flatten()
        if not len(index) or (name not in TABLES and name not in BLENDS):
            continue
        some, by, much = pixels[index], signed[index].to(pixels.device), strength[index].to(pixels.device)
        if name in BLENDS:
            out[index] = BLENDS[name](some, 1 + ENHANCED * by)
        else:
            out[index] = looked_up(some, TABLES[name](some, by, much))
    return out


def _matrices(which: Tensor, signed: Tensor, height: int, width: int) -> Tensor:
    """(B, 2, 3), as `warp` takes them."""
    matrix = torch.eye(2, 3).repeat(len(which), 1, 1)
    at = {name: which == number for number, name in enumerate(OPERATIONS)}
    matrix[:, 0, 1] = torch.where(at["shear-x"], SHEAR * signed, 0.0)
    matrix[:, 1, 0] = torch.where(at["shear-y"], SHEAR * signed, 0.0)
    matrix[:, 0, 2] = torch.where(at["translate-x"], SHIFT * width * signed, 0.0)
    matrix[:, 1, 2] = torch.where(at["translate-y"], SHIFT * height * signed, 0.0)
    angle = torch.deg2rad(DEGREES * signed)
    cos, sin, x, y = angle.cos(), angle.sin(), width / 2, height / 2
    turned = torch.stack([cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y], 1).view(-1, 2, 3)
    return torch.where(at["rotate"].view(-1, 1, 1), turned, matrix)
