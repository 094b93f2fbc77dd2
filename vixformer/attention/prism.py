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
HIDDEN = 2
"""Hidden units, to the head width."""


class Prism(LinearCore, name="prism"):
    """phi(x) = softplus(W2 ReLU(W1 x + b1) + b2) + 1e-3, one network of 2 K hidden units for q, k and all heads of a layer."""

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        conv: int | None = 3

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        self.first = nn.Linear(shape.head_dim, HIDDEN * shape.head_dim)
        self.second = nn.Linear(HIDDEN * shape.head_dim, shape.head_dim)
        self.first.weight.data *= shape.head_dim**-0.25  # the size at which other kernels see q and k

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        first, second = ((layer.weight.to(x.dtype), layer.bias.to(x.dtype)) for layer in (self.first, self.second))
        return F.softplus(F.linear(F.relu(F.linear(x, *first)), *second)) + EPS

    def native_map(self) -> native.FeatureMap:
        return native.FeatureMap(None, 1.0, False, 0.0, EPS, 0.0, network=(self.first, self.second))

    @property
    def width(self) -> int:
        return self.shape.head_dim

    def phi_macs(self, n: int) -> int:
        return n * 2 * HIDDEN * self.shape.head_dim**2
