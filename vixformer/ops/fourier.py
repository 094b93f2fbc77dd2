"""The Fourier transform of tokens."""
# B images  N tokens  D width

from __future__ import annotations

import torch
from torch import Tensor

from vixformer.ops.precision import wide


def fourier_mix(x: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
    """Real part of the discrete Fourier transform of real x (B, N, D) over tokens and channels; with a grid, over rows and columns too.

    The transform of a real signal is half redundant: transform channels to D/2 + 1 frequencies, tokens in full, and read the other half
    off by symmetry, Re X[-n, -d] = Re X[n, d].
    """
    if grid is None:
        return unfold(half_spectrum(wide(x)), x.shape[-1]).to(x.dtype)
    half = torch.fft.rfftn(wide(x).unflatten(1, grid), dim=(1, 2, 3)).real
    mirrored = half[..., 1 : (x.shape[-1] + 1) // 2].flip(1, 2, 3).roll((1, 1), (1, 2))  # frequency 0 stays where it is
    return torch.cat([half, mirrored], -1).flatten(1, 2).to(x.dtype)


def half_spectrum(x: Tensor) -> Tensor:
    return torch.fft.fft(torch.fft.rfft(x, dim=-1), dim=-2)


def unfold(half: Tensor, d: int) -> Tensor:
    half = half.real
    mirrored = half[..., 1 : (d + 1) // 2].flip(-1)
    mirrored = torch.cat([mirrored[..., :1, :], mirrored[..., 1:, :].flip(-2)], -2)
    return torch.cat([half, mirrored], -1)


def fourier_mix_slow(x: Tensor, grid: tuple[int, int] | None = None) -> Tensor:
    """Re(F_N x F_D), with a grid Re(F_h F_w x F_D), as the matrices written out, one axis after the other."""
    out = x.to(torch.complex128).unflatten(1, grid or (x.shape[1],))
    for axis in range(1, out.dim()):
        i = torch.arange(out.shape[axis], device=x.device)
        angles = (i[:, None] * i % len(i)).double() * (2 * torch.pi / len(i))
        out = (out.movedim(axis, -1) @ torch.polar(torch.ones_like(angles), -angles)).movedim(-1, axis)
    return out.real.flatten(1, -2).to(x.dtype)
