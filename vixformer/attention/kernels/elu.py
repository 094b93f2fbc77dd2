"""ELU(u) shifted by alpha, so that it is positive; with `raw=true` not shifted."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.kernel import RawKernel


class ELU(RawKernel, name="elu"):
    one_each = True

    @dataclass(frozen=True, kw_only=True)
    class Config(RawKernel.Config):
        alpha: PositiveFloat = 1.0

    config: Config

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        shift = 0.0 if self.config.raw else self.config.alpha
        return F.elu(u, self.config.alpha) + (shift + self.config.eps)

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        return (
            None
            if self.config.raw
            else ops.EluMap(directions=directions, scale=scale, eps=self.config.eps, alpha=self.config.alpha)
        )
