"""GELU(u) shifted by its minimum, without which the normaliser could vanish."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from vixformer.attention.kernels.base import PositiveKernel

MINIMUM = 0.16997121  # of -GELU, at u = -0.7518


class GELU(PositiveKernel, name="gelu"):
    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        return F.gelu(u) + (MINIMUM + self.config.eps)
