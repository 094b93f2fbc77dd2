"""Mixup (arXiv:1710.09412) and CutMix (arXiv:1905.04899): images mixed with others of their batch, and their labels
with them."""
# B images  C classes

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def mix(
    images: Tensor, labels: Tensor, classes: int, mixup: float, cutmix: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Images and soft labels (B, C), or numbers (B,). `mixup` and `cutmix` are the parameters of their Beta
    distributions; if both are above 0, each batch takes one of them, with equal probability."""
    draw = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    cut = cutmix > 0 and (mixup == 0 or draw.random() < 0.5)
    alpha = cutmix if cut else mixup
    share = float(draw.beta(alpha, alpha))
    partner = torch.randperm(len(images), generator=generator).to(images.device)
    images, share = pasted(images, partner, share, draw) if cut else (images.lerp(images[partner], 1 - share), share)
    soft = labels if labels.is_floating_point() else F.one_hot(labels, classes).float()
    return images, soft.lerp(soft[partner], 1 - share)


def pasted(images: Tensor, partner: Tensor, share: float, draw: np.random.Generator) -> tuple[Tensor, float]:
    """A box of 1 - share of the area from the partner, its middle anywhere; and the share of the image that is
    left."""
    height, width = images.shape[-2:]
    side = math.sqrt(1 - share)
    (top, bottom), (left, right) = (_span(length, side, draw) for length in (height, width))
    out = images.clone()
    out[..., top:bottom, left:right] = images[partner, :, top:bottom, left:right]
    return out, 1 - (bottom - top) * (right - left) / (height * width)


def _span(length: int, side: float, draw: np.random.Generator) -> tuple[int, int]:
    middle, size = int(draw.integers(length)), int(length * side)
    return max(middle - size // 2, 0), min(middle + (size - size // 2), length)
