"""Exact attention, through torch's fused kernel: the baseline to beat."""
# N tokens  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from vixformer.attention import ops
from vixformer.attention.base import Core, Grid


class Softmax(Core, name="softmax"):
    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        causal: bool = False

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return ops.softmax_attention(q, k, v, mask, self.config.causal)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return ops.softmax_attention_slow(q, k, v, mask, self.config.causal)

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.softmax_weights(q, k, mask, self.config.causal)

    def macs(self, n: int) -> int:
        return 2 * n * n * self.shape.num_heads * self.shape.head_dim
