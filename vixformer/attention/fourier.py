"""FNet: the real part of a Fourier transform over tokens and channels, with no weight at all (arXiv:2105.03824)."""
# N tokens  D width

from __future__ import annotations

import math

from torch import Tensor

from vixformer.attention import ops
from vixformer.attention.base import Mixer


class Fourier(Mixer, name="fourier"):
    by_formula = True

    def forward(self, x: Tensor) -> Tensor:
        return ops.fourier_mix(x)

    def reference(self, x: Tensor) -> Tensor:
        return ops.fourier_mix_slow(x)

    def macs(self, n: int) -> int:
        """A transform of n is 5 n log2 n operations, two a multiply-add; half of them, since the input is real."""
        d = self.shape.dim
        return round(5 * n * d * math.log2(max(2, n * d)) / 4)
