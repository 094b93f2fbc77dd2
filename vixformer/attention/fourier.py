"""FNet: the real part of a Fourier transform over tokens and channels, with no weight at all (arXiv:2105.03824).

With `grid=true` the rows and columns of the image are two axes, as in the FNet2D of "Vision Xformers".
"""
# N tokens  D width

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vixformer import ops
from vixformer.attention.base import Grid, Mixer, Shape
from vixformer.ops import native


class Fourier(Mixer, name="fourier"):
    """`grid=true` transforms channels, rows and columns instead of channels and tokens; without a grid, the tokens are one row."""

    by_formula = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        grid: bool = False

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        self.uses_grid = config.grid
        if shape.grid is not None and shape.num_tokens is not None:
            self._check(shape.num_tokens, shape.grid)

    def _check(self, n: int, grid: Grid) -> None:
        if self.uses_grid and grid[0] * grid[1] != n:
            raise ValueError(
                f"fourier(grid=true) transforms rows and columns, and {n} tokens are not the {grid[0]} x {grid[1]} places of the image: "
                'use pool="mean", which has no class token, or fourier without grid=true'
            )

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        if grid is not None:
            self._check(x.shape[1], grid)
            return ops.fourier_mix(x, grid)
        plain = torch.compiler.is_compiling() or ops.transformed()
        if plain:
            return ops.fourier_mix(x)
        return _Mix.apply(x) if x.numel() else x.clone()  # pyright: ignore[reportReturnType]  # torch transforms no empty batch

    def reference(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        return ops.fourier_mix_slow(x, grid)

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
