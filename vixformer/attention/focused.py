"""Focused linear attention, FLatten (arXiv:2308.00442): cubed ReLU features, and a convolution of v that restores local
detail."""
# H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Shape
from vixformer.attention.linear_core import LinearCore
from vixformer.attention.local import Local


class Focused(LinearCore, name="focused"):
    """phi(x) = y^power, with y = (ReLU(x) + 1e-6) / softplus(scale), at the length of y."""

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        power: PositiveFloat = 3.0
        conv: int | None = 5

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        self.scale = nn.Parameter(torch.zeros(shape.num_heads, 1, shape.head_dim))

    def make_conv(self, side: int) -> Local:
        """All heads share their filters."""
        return Local(self.shape.values, side, bias=True)

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        return self.feature_map(x.dtype)(x, keys)

    def feature_map(self, dtype: torch.dtype = torch.float32) -> ops.FeatureMap:
        return ops.FocusedMap(1 / F.softplus(self.scale.squeeze(1).to(dtype)), self.config.power)

    @property
    def width(self) -> int:
        return self.shape.head_dim
