"""From stored pixels to the batch a model sees: whole batches at once, on the device they are on."""
# B images  C channels

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def normalize(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Values of 0 to 255 to float32 with the mean and standard deviation taken out, which are those of 0 to 1."""
    scale = 1 / (255 * torch.tensor(std, device=pixels.device))
    shift = -torch.tensor(mean, device=pixels.device) / torch.tensor(std, device=pixels.device)
    return torch.addcmul(shift.view(-1, 1, 1), pixels.float(), scale.view(-1, 1, 1))


def resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    return (
        images
        if images.shape[-2:] == size
        else F.interpolate(images, size=size, mode="bilinear", antialias=True, align_corners=False)
    )


def crop_and_flip(pixels: Tensor, padding: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Each image shifted by up to `padding` pixels each way, zeros coming in, and mirrored half of the time. Nothing is
    interpolated."""
    if not padding and not flip:
        return pixels
    b, _, height, width = pixels.shape
    device = pixels.device
    padding = min(padding, max(pixels.shape[-2:]))  # further away is nothing but zeros
    padded = F.pad(pixels, [padding] * 4)
    draw = torch.randint(2 * padding + 1, (2, b, 1), generator=generator).to(device)
    rows = torch.arange(height, device=device) + draw[0]
    columns = torch.arange(width, device=device) + draw[1]
    if flip:
        mirrored = torch.rand(b, 1, generator=generator).to(device) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    image = torch.arange(b, device=device).view(b, 1, 1)
    return padded.permute(0, 2, 3, 1)[image, rows.unsqueeze(2), columns.unsqueeze(1)].permute(0, 3, 1, 2).contiguous()


def cut_out(pixels: Tensor, side: int, generator: torch.Generator) -> Tensor:
    """A black square in each image, its middle anywhere, so that some of it may lie outside (arXiv:1708.04552)."""
    if not side:
        return pixels
    b, _, height, width = pixels.shape
    draw = torch.rand(2, b, 1, generator=generator).to(pixels.device)
    rows, columns = (
        torch.arange(n, device=pixels.device) - (draw[i] * n).long() + side // 2 for i, n in enumerate((height, width))
    )
    inside = [(along >= 0) & (along < side) for along in (rows, columns)]
    return pixels.masked_fill((inside[0].unsqueeze(2) & inside[1].unsqueeze(1)).unsqueeze(1), 0)


def rotate(images: Tensor, degrees: float, generator: torch.Generator, interpolation: str = "bilinear") -> Tensor:
    """Each image turned by up to `degrees` either way around its middle. The corners that come in are 0, black until
    normalized."""
    if not degrees:
        return images
    images = images.float()
    b, _, height, width = images.shape
    angle = (torch.rand(b, generator=generator) * 2 - 1).mul_(degrees * torch.pi / 180).to(images.device)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    turn = torch.stack([cos, -sin * height / width, zero, sin * width / height, cos, zero], 1).view(b, 2, 3)
    return F.grid_sample(
        images, F.affine_grid(turn, list(images.shape), align_corners=False), interpolation, align_corners=False
    )
