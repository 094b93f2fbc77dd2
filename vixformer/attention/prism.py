"""Prism: linear attention over features that a small network learns, and a convolution of v: docs/lens.md."""
# H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.attention import native
from vixformer.attention.base import Shape
from vixformer.attention.linear import LinearCore

EPS = 1e-3


class Prism(LinearCore, name="prism"):
    """phi(x) = softplus(W2 ReLU(W1 x / K^(1/4) + b1) + b2) + 1e-3, one network of K hidden units for q, k and all heads of a layer."""

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        conv: int | None = 3

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        self.first, self.second = (nn.Linear(shape.head_dim, shape.head_dim) for _ in range(2))

    def network(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.first.weight * self.shape.head_dim**-0.25, self.first.bias, self.second.weight, self.second.bias

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        first, bias, second, shift = (t.to(x.dtype) for t in self.network())
        return F.softplus(F.linear(F.relu(F.linear(x, first, bias)), second, shift)) + EPS

    def native_map(self) -> native.FeatureMap:
        return native.FeatureMap(None, 1.0, False, 0.0, EPS, 0.0, self.network())

    @property
    def width(self) -> int:
        return self.shape.head_dim

    def phi_macs(self, n: int) -> int:
        return n * 2 * self.shape.head_dim**2
