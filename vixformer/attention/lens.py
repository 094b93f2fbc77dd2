"""Lens: linear attention over ReLU features of q and k themselves, and a convolution of v: docs/lens.md."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import PositiveFloat
from torch import Tensor

from vixformer.attention import native
from vixformer.attention.linear import LinearCore

EPS = 1e-3


class Lens(LinearCore, name="lens"):
    """phi(x) = (ReLU(x) + 1e-3)^power. The directions of its features are learned, because the weights that make q and k are."""

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        conv: int | None = 3
        power: PositiveFloat = 1.0

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        x = x.clamp(min=0.0) + EPS
        return x if self.config.power == 1 else x**self.config.power

    def native_map(self) -> native.FeatureMap | None:
        return native.FeatureMap(None, 1.0, False, 0.0, EPS, 0.0) if self.config.power == 1 else None

    @property
    def width(self) -> int:
        return self.shape.head_dim
