"""One linear layer for q, k and v."""
# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from torch import Tensor

from vixformer.attention.base import Shape
from vixformer.attention.project.projection import Attention, Heads
from vixformer.nn.dense import Linear
from vixformer.ops import Grid, Rotation, split_heads


class LinearProjection(Attention, name="linear"):
    def make_projections(self, shape: Shape) -> None:
        self.qkv = Linear(shape.dim, 3 * shape.num_heads * shape.head_dim, bias=self.config.qkv_bias)

    def split(self, x: Tensor, grid: Grid | None) -> Heads:
        return split_heads(self.qkv(x), self.core.shape.num_heads)

    def turned(self, x: Tensor, grid: Grid | None, rotation: Rotation) -> Heads:
        return split_heads(self.qkv(x), self.core.shape.num_heads, rotation)
