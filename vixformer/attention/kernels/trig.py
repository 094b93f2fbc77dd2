"""Trigonometric random features of the softmax kernel, exp(|x|^2 / 2) [cos u, sin u]: the unstable ancestor of FAVOR+.

They may be negative and the normalizer may vanish, so it is kept at least 0.001 away from zero, and the sums are
float64. Even so a small change of q and k, such as rounding them to bfloat16, can change the output a lot.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.kernel import Kernel


class Trig(Kernel, name="trig"):
    projects = "always"
    estimates_softmax = True
    uses_norm = True
    floor = 1e-3

    def __init__(self, config: Kernel.Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.width = 2 * features

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        assert square is not None
        u, square = ops.widest(u), ops.widest(square)
        waves = torch.cat([u.cos(), u.sin()], -1) * u.shape[-1] ** -0.5
        if not keys:
            return waves  # a query's own factor cancels in the division
        half = square / 2
        if self.causal:  # the largest key may be a future one, and the least normalizer is measured against it
            return waves * torch.exp(half)
        seen = half.detach() if mask is None else half.detach().masked_fill(~mask[:, None, :, None], 0.0)
        return waves * torch.exp(half - seen.amax(-2, keepdim=True))
