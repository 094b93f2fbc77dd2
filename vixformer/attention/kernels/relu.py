"""ReLU(u) + eps: the fastest kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.kernel import PositiveKernel


class ReLU(PositiveKernel, name="relu"):
    one_each = True
    form = ops.ReluMap

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        # clamp, unlike relu, does not need its own output for backward, so eps can be added in place
        return torch.clamp(u, min=0.0, out=ops.room(u)).add_(self.config.eps)
