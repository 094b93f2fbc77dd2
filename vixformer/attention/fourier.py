"""FNet: the real part of a Fourier transform over tokens and channels, with no weight at all (arXiv:2105.03824)."""
# N tokens  D width

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from vixformer.attention import native, ops
from vixformer.attention.base import Mixer


class Fourier(Mixer, name="fourier"):
    by_formula = True

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling() or ops.transformed():
            return ops.fourier_mix(x)
        return _Mix.apply(x) if x.numel() else x.clone()  # pyright: ignore[reportReturnType]  # torch transforms no empty batch

    def reference(self, x: Tensor) -> Tensor:
        return ops.fourier_mix_slow(x)

    def macs(self, n: int) -> int:
        """A transform of n is 5 n log2 n operations, two a multiply-add; half of them, since the input is real."""
        d = self.shape.dim
        return round(5 * n * d * math.log2(max(2, n * d)) / 4)


class _Mix(torch.autograd.Function):
    """The transform is its own transpose: what it does to tokens, backward does to their gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        # of one image the threads of a CPU share the channels, of many each takes some images
        half = torch.fft.rfft2(ops.wide(x)) if len(x) > 1 else ops.half_spectrum(ops.wide(x))
        fast = native.unfold(half, x.shape[-1])
        return (ops.unfold(half, x.shape[-1]) if fast is None else fast).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Mix.apply(grads[0])
