"""FNet: the real part of a Fourier transform over tokens and channels, with no weight at all (arXiv:2105.03824).

With `grid=true` the rows and columns of the image are two axes, as in the FNet2D of "Vision Xformers".
"""

# N tokens  D width

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from vixformer import ops
from vixformer.attention.base import Mixer, Shape
from vixformer.ops import Grid


class Fourier(Mixer, name="fourier"):
    """`grid=true` transforms channels, rows and columns instead of channels and tokens; without a grid, the tokens are
    one row."""

    by_formula = True

    @dataclass(frozen=True, kw_only=True)
    class Config(Mixer.Config):
        grid: bool = False

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        self.uses_grid = config.grid
        if shape.grid is not None and shape.num_tokens is not None:
            self._check(shape.num_tokens, shape.grid)

    def _check(self, n: int, grid: Grid) -> None:
        if self.uses_grid and grid[0] * grid[1] != n:
            raise ValueError(
                f"fourier(grid=true) transforms rows and columns, and {n} tokens are not the {grid[0]} x {grid[1]}"
                ' places of the image: use pool="mean", which has no class token, or fourier without grid=true'
            )

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        if grid is not None:
            self._check(x.shape[1], grid)
        return ops.fourier_mix(x, grid)

    def reference(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        return ops.fourier_mix_slow(x, grid)

    def macs(self, n: int) -> int:
        """A transform of n is 5 n log2 n operations, two a multiply-add; half of them, since the input is real."""
        d = self.shape.dim
        return round(5 * n * d * math.log2(max(2, n * d)) / 4)
