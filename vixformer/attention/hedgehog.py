"""Hedgehog: linear attention whose features are a softmax over a learned map and its negative (arXiv:2402.04347)."""
# H heads  K head width

from __future__ import annotations

import torch
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Shape
from vixformer.attention.linear_core import LinearCore


class Hedgehog(LinearCore, name="hedgehog"):
    """phi(x) = softmax [W x, -W x]. W is K x K, one a head and one each for q and k, the identity at first."""

    def __init__(self, config: LinearCore.Config, shape: Shape) -> None:
        super().__init__(config, shape)
        eye = torch.eye(shape.head_dim).repeat(shape.num_heads, 1, 1)
        self.weight_q, self.weight_k = nn.Parameter(eye), nn.Parameter(eye.clone())

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        return self.feature_map()(x, keys)

    def feature_map(self) -> ops.FeatureMap:
        return ops.HedgehogMap(self.weight_q, self.weight_k)

    @property
    def width(self) -> int:
        return 2 * self.shape.head_dim

    def phi_macs(self, n: int) -> int:
        return n * self.shape.head_dim**2
