"""Exact attention: the baseline to beat. Torch's fused kernel, or our loops where they are faster."""
# N tokens  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from vixformer.attention import native, ops
from vixformer.attention.base import Core, Grid

SHORT = 512
"""Keys up to which our loops were never slower than torch's kernel, forward and backward (docs/speed.md)."""


class Softmax(Core, name="softmax"):
    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        causal: bool = False

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        short = mask is None and not self.config.causal and k.shape[-2] <= SHORT
        fast = native.exact(q, k, v) if short else None
        return ops.softmax_attention(q, k, v, mask, self.config.causal) if fast is None else fast

    def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return ops.softmax_attention_slow(q, k, v, mask, self.config.causal)

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.softmax_weights(q, k, mask, self.config.causal)

    def macs(self, n: int) -> int:
        return 2 * n * n * self.shape.num_heads * self.shape.head_dim
