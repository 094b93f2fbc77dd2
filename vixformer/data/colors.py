"""Colors of whole batches, as Pillow changes them image by image: uint8 in, uint8 out."""
# B images  C channels

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 256


def gray(pixels: Tensor) -> Tensor:
    """(B, 1, height, width) as whole numbers; of images in gray these themselves."""
    values = pixels.int()
    if pixels.shape[1] == 1:
        return values
    red, green, blue = values.unbind(1)
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).unsqueeze(1)


def blend(base: Tensor, pixels: Tensor, factor: Tensor) -> Tensor:
    """base + factor * (pixels - base), with a factor for each image."""
    base = base.float()
    return (base + factor.view(-1, 1, 1, 1) * (pixels.float() - base)).clamp_(0, 255).to(torch.uint8)


def saturation(pixels: Tensor, factor: Tensor) -> Tensor:
    return blend(gray(pixels), pixels, factor)


def sharpness(pixels: Tensor, factor: Tensor) -> Tensor:
    """Against the image smoothed by a window of 3 x 3; its border stays as it is."""
    channels = pixels.shape[1]
    smooth = pixels.float()
    if min(pixels.shape[-2:]) > 2:
        window = torch.tensor([[1.0, 1, 1], [1, 5, 1], [1, 1, 1]], device=pixels.device) / 13
        inner = F.conv2d(smooth, window.expand(channels, 1, 3, 3), groups=channels)
        smooth[..., 1:-1, 1:-1] = inner.add_(0.5).floor_()
    return blend(smooth, pixels, factor)


def jitter(pixels: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Brightness, contrast and saturation of each image, each times a factor of 1 - strength to 1 + strength."""
    spread = (2 * torch.rand(3, len(pixels), generator=generator) - 1) * strength
    factors = (1 + spread).clamp_(min=0).to(pixels.device)
    pixels = looked_up(pixels, brightness(factors[0]))
    pixels = looked_up(pixels, contrast(pixels, factors[1]))
    return pixels if pixels.shape[1] == 1 else saturation(pixels, factors[2])


# Tables (B, 1 or C, 256): what becomes of each level


def looked_up(pixels: Tensor, table: Tensor) -> Tensor:
    """Each level replaced by that of the table."""
    b, channels = pixels.shape[:2]
    table = table.clamp(0, 255).to(torch.uint8).expand(b, channels, LEVELS)
    return table.gather(2, pixels.flatten(2).long()).view_as(pixels)


def levels(like: Tensor) -> Tensor:
    return torch.arange(LEVELS, device=like.device, dtype=torch.float32).expand(1, 1, -1)


def brightness(factor: Tensor) -> Tensor:
    return levels(factor) * factor.view(-1, 1, 1)


def contrast(pixels: Tensor, factor: Tensor) -> Tensor:
    """Against the mean of the image in gray."""
    mean = (gray(pixels).float().mean((2, 3)) + 0.5).floor().unsqueeze(2)
    return mean + factor.view(-1, 1, 1) * (levels(factor) - mean)


def inverted(like: Tensor) -> Tensor:
    return 255 - levels(like)


def solarized(threshold: Tensor) -> Tensor:
    """Levels from the threshold on are inverted."""
    level = levels(threshold)
    return torch.where(level < threshold.view(-1, 1, 1), level, 255 - level)


def posterized(bits: Tensor) -> Tensor:
    """Only the highest bits are kept."""
    step = 2.0 ** (8 - bits).view(-1, 1, 1)
    return (levels(bits) / step).floor() * step


def stretched(pixels: Tensor) -> Tensor:
    """The darkest level of each channel becomes 0, the brightest 255."""
    flat = pixels.flatten(2)
    low, high = flat.amin(2, keepdim=True).float(), flat.amax(2, keepdim=True).float()
    scale = 255 / (high - low).clamp(min=1)
    return torch.where(high > low, ((levels(pixels) - low) * scale + 1e-3).floor(), levels(pixels))


def equalized(pixels: Tensor) -> Tensor:
    """Each channel's levels become about equally frequent."""
    flat = pixels.flatten(2).long()
    counts = torch.zeros(*flat.shape[:2], LEVELS, dtype=torch.int64, device=pixels.device)
    counts.scatter_add_(2, flat, torch.ones_like(flat))
    brightest = counts.gather(2, flat.amax(2, keepdim=True))
    step = (flat.shape[2] - brightest) // 255
    before = counts.cumsum(2) - counts
    table = (before + step // 2) // step.clamp(min=1)
    return torch.where(step > 0, table.float(), levels(pixels))
