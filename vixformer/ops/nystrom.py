"""Attention through landmarks."""
# N tokens  K head width  L landmarks

from __future__ import annotations

import torch
from torch import Tensor


def segment_bounds(n: int, segments: int) -> tuple[int, int]:
    """n tokens in uneven segments: how many short ones come first, and their length; the rest are one longer."""
    length = n // segments
    return (length + 1) * segments - n, length


def segment_sums(x: Tensor, segments: int) -> Tensor:
    """(..., N, K) -> (..., segments, K)."""
    short, length = segment_bounds(x.shape[-2], segments)
    head, tail = x[..., : short * length, :], x[..., short * length :, :]
    sums = head if length == 1 else head.unflatten(-2, (short, length)).sum(-2)
    if short == segments:
        return sums
    return torch.cat([sums, tail.unflatten(-2, (segments - short, length + 1)).sum(-2)], -2)


def iterative_pinv(a: Tensor, iterations: int) -> Tensor:
    """Z <- Z (13 I - AZ (15 I - AZ (7 I - AZ))) / 4 from A' over its largest column sum, for every matrix by itself.

    Multiplied out so that each product also does the addition: no identity, no elementwise pass.
    """
    shape = a.shape
    a = a.reshape(-1, *shape[-2:])
    z = a.transpose(1, 2) / a.sum(1).amax(-1)[:, None, None]
    for _ in range(iterations):
        az = torch.bmm(a, z)
        inner = torch.baddbmm(az, az, az, beta=7, alpha=-1)
        outer = torch.baddbmm(az, az, inner, beta=15, alpha=-1)
        z = torch.baddbmm(z, z, outer, beta=13 / 4, alpha=-1 / 4)
    return z.view(shape)


def iterative_pinv_slow(a: Tensor, iterations: int) -> Tensor:
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    z = a.transpose(-1, -2) / a.sum(-2).amax(-1)[..., None, None]
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az))) / 4
    return z
