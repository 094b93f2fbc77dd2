"""The hyperbolic cosine form of FAVOR+: [exp(u), exp(-u)] with one set of directions, half the variance for twice the
features."""

from __future__ import annotations

import torch
from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.favor import SoftmaxKernel


class Cosh(SoftmaxKernel, name="cosh"):
    def __init__(self, config: SoftmaxKernel.Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.width = 2 * features

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        assert square is not None
        return ops.stable_exp(
            torch.cat([u, -u], -1), square * self.norm_weight, self.config.eps, keys, mask, self.causal
        )

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        weight, eps = self.norm_weight * scale**2, self.config.eps
        return ops.CoshMap(directions=directions, scale=scale, eps=eps, weight=weight)
