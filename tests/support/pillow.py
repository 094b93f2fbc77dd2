"""Pictures for Pillow, image by image, and what it made of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def pictures(count: int = 12, channels: int = 3, height: int = 20, width: int = 28) -> Tensor:
    """Smooth, as photographs are, with some noise, of other contrasts."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.rand(count, channels, 5, 7, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")
    noise = 0.1 * torch.rand(count, channels, height, width, generator=generator)
    contrast = torch.linspace(0.3, 1, count).view(-1, 1, 1, 1)
    return ((smooth + noise) * contrast * 230).to(torch.uint8)


def each(pixels: Tensor, change: Callable[[Image.Image, int], Image.Image]) -> Tensor:
    """What Pillow makes of each image."""
    made = [np.asarray(change(Image.fromarray(p.permute(1, 2, 0).squeeze(2).numpy()), i)) for i, p in enumerate(pixels)]
    stacked = torch.from_numpy(np.stack(made))
    return stacked.unsqueeze(1) if stacked.dim() == 3 else stacked.permute(0, 3, 1, 2)


def apart(ours: Tensor, theirs: Tensor) -> int:
    """The largest difference of a level."""
    assert ours.dtype == theirs.dtype == torch.uint8
    return int((ours.int() - theirs.int()).abs().max())
