"""ELU(u) shifted by alpha, so that it is positive."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from vixformer.attention.kernels.base import PositiveKernel


class ELU(PositiveKernel, name="elu"):
    @dataclass(frozen=True, kw_only=True)
    class Config(PositiveKernel.Config):
        alpha: PositiveFloat = 1.0

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        return F.elu(u, self.config.alpha) + (self.config.alpha + self.config.eps)
