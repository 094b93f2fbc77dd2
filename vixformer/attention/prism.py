"""Prism: linear attention over features that a small network learns, and a convolution of v: docs/lens.md."""

# H heads  K head width

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Shape
from vixformer.attention.linear_core import LinearCore

EPS = 1e-3
GAIN = 8.0
"""How steeply the network begins, so that softplus is near ReLU. Begun as Lens with ReLU at its end, it needs neither
this nor a shift."""
SHIFT = {"orthogonal": -1.0, "lens": -2.0}
ENDS: dict[str, Callable[[Tensor], Tensor]] = {"softplus": F.softplus, "relu": F.relu, "elu": lambda y: F.elu(y) + 1.0}


@torch.no_grad()
def _diagonal_(weight: Tensor, gain: float) -> Tensor:
    return nn.init.eye_(weight).mul_(gain)


class Prism(LinearCore, name="prism"):
    """phi(x) = softplus(W2 ReLU(W1 x / K^(1/4) + b1) + b2) + 1e-3, one network of K hidden units for q, k and all heads
    of a layer.

    That is the MLP kernel of "Optimizing Image Classification on CIFAR-10 with Transformer Architectures"
    (`performer(kernel=mlp)`) with half its hidden units, in C, and a convolution of v. `end` is what makes features
    positive; `elu` is not in C. It begins as Lens does, with ReLU features of x itself (nearly so where the end is
    smooth); `start=orthogonal` with other features that differ, `start=plain` with torch's own weights, which make
    features nearly alike.
    """

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        conv: int | None = 3
        end: Literal["softplus", "relu", "elu"] = "softplus"
        start: Literal["lens", "orthogonal", "plain"] = "lens"

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        self.first, self.second = (nn.Linear(shape.head_dim, shape.head_dim) for _ in range(2))
        if config.start != "plain":
            gain, shift = (1.0, 0.0) if (config.start, config.end) == ("lens", "relu") else (GAIN, SHIFT[config.start])
            begin = nn.init.orthogonal_ if config.start == "orthogonal" else _diagonal_
            begin(self.first.weight, shape.head_dim**0.25)  # takes back that x is divided by it
            begin(self.second.weight, gain)
            nn.init.zeros_(self.first.bias)
            nn.init.constant_(self.second.bias, shift)

    def network(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.first.weight * self.shape.head_dim**-0.25, self.first.bias, self.second.weight, self.second.bias

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        first, bias, second, shift = (t.to(x.dtype) for t in self.network())
        return ENDS[self.config.end](F.linear(F.relu(F.linear(x, first, bias)), second, shift)) + EPS

    def feature_map(self) -> ops.FeatureMap | None:
        if self.config.end == "elu":
            return None
        first, bias, second, shift = self.network()
        return ops.NetworkMap(
            first=first, bias=bias, second=second, shift=shift, smooth=self.config.end == "softplus", eps=EPS
        )

    @property
    def width(self) -> int:
        return self.shape.head_dim

    def phi_macs(self, n: int) -> int:
        return n * 2 * self.shape.head_dim**2
