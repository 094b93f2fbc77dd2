"""A learned kernel, ReLU(T u) + eps with T square: "Exploring Fast Attention Mechanisms" (Xu, 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.kernels.relu import ReLU


class Matrix(ReLU, name="matrix"):
    def __init__(self, config: ReLU.Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.weight = nn.Parameter(torch.randn(features, features))

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        return super().forward(u @ self.weight.to(u.dtype).t(), square, keys, mask)

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        return ops.MatrixMap(weight=self.weight, directions=directions, scale=scale, eps=self.config.eps)

    def macs(self) -> int:
        return self.features**2
