"""GELU(u) shifted by its minimum, without which the normalizer could vanish; with `raw=true` not shifted."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.kernel import RawKernel

MINIMUM = 0.16997121  # of -GELU, at u = -0.7518


class GELU(RawKernel, name="gelu"):
    one_each = True

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        shift = 0.0 if self.config.raw else MINIMUM
        return F.gelu(u) + (shift + self.config.eps)

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        return (
            None if self.config.raw else ops.GeluMap(directions=directions, scale=scale, eps=MINIMUM + self.config.eps)
        )
