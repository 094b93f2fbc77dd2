"""One attention layer to be measured, on the square that its tokens lie on, so that mechanisms which look at it do all
their work."""

from __future__ import annotations

import math

from torch import Tensor, nn

from vixformer.models import create_attention


class Layer(nn.Module):
    def __init__(self, attention: str, dim: int, num_heads: int, num_tokens: int, qkv_bias: bool = True) -> None:
        super().__init__()
        side = math.isqrt(num_tokens)
        self.grid = (side, side) if num_tokens - side * side <= 1 else (1, num_tokens)  # one may be a class token
        self.attention = create_attention(
            attention, dim=dim, num_heads=num_heads, num_tokens=num_tokens, qkv_bias=qkv_bias
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, grid=self.grid)
