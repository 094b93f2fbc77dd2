"""Keys that are also the values ("Vision Xformers"): one head of them for all queries, or as many heads as queries
have."""
# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from torch import Tensor

from vixformer.attention.base import Shape
from vixformer.attention.project.projection import Attention, Heads
from vixformer.nn.dense import Linear
from vixformer.ops import Grid


class OneKeyValueHead(Attention, name="one-kv"):
    """Queries for every head, and a single head that is the keys and the values of all of them (for its Linformer)."""

    def make_projections(self, shape: Shape) -> None:
        self.q = Linear(shape.dim, shape.num_heads * shape.head_dim, bias=self.config.qkv_bias)
        self.kv = Linear(shape.dim, shape.head_dim, bias=self.config.qkv_bias)

    def split(self, x: Tensor, grid: Grid | None) -> Heads:
        q = self.by_head(self.q(x))
        kv = self.kv(x).unsqueeze(1).expand_as(q)
        return q, kv, kv


class SharedKeyValue(Attention, name="shared-kv"):
    """Keys that are also the values, in every head: rotary positions turn the keys alone (for its rotary Linformer)."""

    def make_projections(self, shape: Shape) -> None:
        inner = shape.num_heads * shape.head_dim
        self.q, self.kv = (Linear(shape.dim, inner, bias=self.config.qkv_bias) for _ in range(2))

    def split(self, x: Tensor, grid: Grid | None) -> Heads:
        q, kv = self.by_head(self.q(x)), self.by_head(self.kv(x))
        return q, kv, kv
