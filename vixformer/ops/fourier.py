"""The Fourier transform of tokens."""

# B images  N tokens  D width

from __future__ import annotations

import math

import torch
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.choice import eager, kernel_takes
from vixformer.ops.convolution import Grid
from vixformer.ops.operation import Arguments, Context, Gradients, Operation, Sizes
from vixformer.ops.precision import wide


def fourier_mix(x: Tensor, grid: Grid | None = None) -> Tensor:
    """Real part of the discrete Fourier transform of real x (B, N, D) over tokens and channels; with a grid, over rows
    and columns too.

    The transform of a real signal is half redundant: transform channels to D/2 + 1 frequencies, tokens in full, and
    read the other half off by symmetry, Re X[-n, -d] = Re X[n, d].
    """
    if x.dim() != 3 or (grid is not None and grid[0] * grid[1] != x.shape[1]):
        raise ValueError(
            f"a transform of tokens takes (batch, tokens, width), and a grid of as many tokens, not {tuple(x.shape)},"
            f" {grid}"
        )
    if grid is not None:
        half = torch.fft.rfftn(wide(x).unflatten(1, grid), dim=(1, 2, 3)).real
        # frequency 0 stays where it is
        mirrored = half[..., 1 : (x.shape[-1] + 1) // 2].flip(1, 2, 3).roll((1, 1), (1, 2))
        return torch.cat([half, mirrored], -1).flatten(1, 2).to(x.dtype)
    if kernel_takes(x):
        return FourierMix.call(x)
    if eager():  # whoever unfolds: that the transform is its own transpose saves a transform of complex numbers
        return FourierMix.direct.apply(x)
    return _unfold(_half_spectrum(wide(x)), x.shape[-1]).to(x.dtype)


class FourierMix(Operation, name="fourier_mix"):
    """The transform is its own transpose: what it does to tokens, backward does to their gradient."""

    takes = "Tensor x"
    gives = "Tensor"

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        if not x.numel():  # torch transforms no empty batch
            return x.clone()
        # of one image the threads of a CPU share the channels, of many each takes some images
        half = torch.fft.rfft2(wide(x)) if len(x) > 1 else _half_spectrum(wide(x))
        real = torch.view_as_real(half)
        if not kernel_takes(real):
            return _unfold(half, x.shape[-1]).to(x.dtype)
        real, out = real.contiguous(), real.new_empty(x.shape)
        native.loaded().unfold(real.data_ptr(), out.data_ptr(), *out.shape)
        return out.to(x.dtype)

    @staticmethod
    def fake(x: Tensor) -> Tensor:
        return x.new_empty(x.shape)

    @staticmethod
    def kept(inputs: Arguments, made: object) -> Arguments:
        return ()

    @classmethod
    def differentiate(cls, ctx: Context, *grads: Tensor) -> Gradients:
        return (fourier_mix(grads[0]),)

    @staticmethod
    def flops(x: Sizes) -> int:
        """A transform of n is 5 n log2 n operations; half of them, since the input is real."""
        b, n, d = x
        return round(5 * b * n * d * math.log2(max(2, n * d)) / 2)


def _half_spectrum(x: Tensor) -> Tensor:
    return torch.fft.fft(torch.fft.rfft(x, dim=-1), dim=-2)


def _unfold(half: Tensor, d: int) -> Tensor:
    half = half.real
    mirrored = half[..., 1 : (d + 1) // 2].flip(-1)
    mirrored = torch.cat([mirrored[..., :1, :], mirrored[..., 1:, :].flip(-2)], -2)
    return torch.cat([half, mirrored], -1)


def fourier_mix_slow(x: Tensor, grid: Grid | None = None) -> Tensor:
    """Re(F_N x F_D), with a grid Re(F_h F_w x F_D), as the matrices written out, one axis after the other."""
    out = x.to(torch.complex128).unflatten(1, grid or (x.shape[1],))
    for axis in range(1, out.dim()):
        i = torch.arange(out.shape[axis], device=x.device)
        angles = (i[:, None] * i % len(i)).double() * (2 * torch.pi / len(i))
        out = (out.movedim(axis, -1) @ torch.polar(torch.ones_like(angles), -angles)).movedim(-1, axis)
    return out.real.flatten(1, -2).to(x.dtype)
