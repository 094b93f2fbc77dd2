"""Lens: linear attention over ReLU features of q and k themselves, and a convolution of v: docs/lens.md."""
# H heads  K head width

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Shape
from vixformer.attention.linear_core import LinearCore
from vixformer.attention.local import Local
from vixformer.ops import Grid

EPS = 1e-3
LOOK = 3
"""Side of the window that features look at."""


class Lens(LinearCore, name="lens"):
    """phi(x) = (ReLU(x) + 1e-3)^power. The weights that make q and k learn the directions of its features.

    `look` lets features see neighbors on the grid before ReLU: `conv` with a filter a channel, `graph` with one weight
    a neighbor for all of them. `norm` brings q and k to the length sqrt K. `learn=power` learns the power of each head,
    from `power` on; `learn=gate` multiplies a feature by sigmoid(a x + b), a and b its own.
    """

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        conv: int | None = 3
        power: PositiveFloat = 1.0
        look: Literal["conv", "graph"] | None = None
        norm: bool = False
        learn: Literal["power", "gate"] | None = None

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.look is not None and self.causal:
                raise ValueError(f"look={self.look} looks ahead: causal=true needs look=none")

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        channels = {"conv": shape.num_heads * shape.head_dim, "graph": 1}
        self.look = None if config.look is None else Local(channels[config.look], LOOK)
        self.uses_grid = self.look is not None or self.uses_grid
        self.log_power = nn.Parameter(torch.zeros(shape.num_heads, 1, 1)) if config.learn == "power" else None
        self.gate = nn.Parameter(torch.zeros(2, shape.num_heads, 1, shape.head_dim)) if config.learn == "gate" else None

    def imitate(self) -> None:
        super().imitate()
        if self.look is not None:
            nn.init.zeros_(self.look.weight)

    @property
    def square(self) -> bool:
        return self.look is not None or self.config.square

    def looking(self, q: Tensor, k: Tensor, mask: Tensor | None, grid: Grid | None) -> tuple[Tensor, Tensor]:
        return (q, k) if self.look is None else (self.look(q, q, mask, grid), self.look(k, k, mask, grid))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return super().forward(*self.looking(q, k, mask, grid), v, mask, grid)

    def reference(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
    ) -> Tensor:
        if self.look is not None:
            q, k = (self.look.reference(x, x, mask, grid) for x in (q, k))
        return super().reference(q, k, v, mask, grid)

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        if self.config.norm:
            x = F.normalize(x, dim=-1) * self.shape.head_dim**0.5
        features = x.clamp(min=0.0)
        if self.gate is not None:
            slope, shift = self.gate.to(x.dtype)
            features = features * torch.sigmoid(slope * x + shift)
        features = features + EPS
        if self.log_power is not None:
            return features ** (self.config.power * self.log_power.to(x.dtype).exp())
        return features if self.config.power == 1 else features**self.config.power

    def feature_map(self) -> ops.FeatureMap | None:
        plain = self.config.power == 1 and not self.config.norm and self.config.learn is None
        return ops.ReluMap(eps=EPS) if plain else None

    @property
    def width(self) -> int:
        return self.shape.head_dim

    def phi_macs(self, n: int) -> int:
        return 0 if self.look is None else n * self.shape.head_dim * LOOK**2
