"""A linear layer whose product runs in a compiled kernel where that is faster."""

from __future__ import annotations

from torch import Tensor, nn

from vixformer.ops import linear


class Linear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)
