"""q, k and v by convolutions, as in CvT."""

# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.attention.project.projection import Attention, Heads
from vixformer.nn.dense import Linear
from vixformer.ops import Grid, Rotation


class ConvProjection(Attention, name="conv"):
    """q, k and v by a depthwise 3 x 3 convolution, batch norm and a linear layer; class tokens by the linear layer
    alone.

    With `kv_stride` there are fewer keys than queries, and mechanisms that look at the grid do without it.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        kv_stride: int = 1
        """Of the convolutions that make keys and values."""
        shared_kv: bool = False
        """Whether one convolution makes both."""
        query_scale: float = 1.0
        """Queries times this: CvT divides scores by the root of the width, not of the head's."""

    config: Config

    def make_projections(self, shape: Shape) -> None:
        config, inner = self.config, shape.num_heads * shape.head_dim
        self.strided = config.kv_stride > 1
        self.keeps_grid = not self.strided
        self.q_conv = _depthwise(shape.dim, 1)
        self.q = Linear(shape.dim, inner, bias=config.qkv_bias)
        self.k_conv = _depthwise(shape.dim, config.kv_stride)
        self.v_conv = None if config.shared_kv else _depthwise(shape.dim, config.kv_stride)
        self.k = Linear(shape.dim, inner, bias=config.qkv_bias)
        self.v = Linear(shape.dim, inner, bias=config.qkv_bias)

    def split(self, x: Tensor, grid: Grid | None) -> Heads:
        if grid is None:
            raise ValueError('proj="conv" needs to know the grid that the tokens lie on: pass grid=(height, width)')
        prefix = x.shape[1] - grid[0] * grid[1]
        image = x[:, prefix:].transpose(1, 2).unflatten(-1, grid)

        def convolved(conv: nn.Module) -> Tensor:
            return torch.cat([x[:, :prefix], conv(image).flatten(2).transpose(1, 2)], 1)

        keys = convolved(self.k_conv)
        values = keys if self.v_conv is None else convolved(self.v_conv)
        queries = self.q(convolved(self.q_conv))
        if self.config.query_scale != 1:
            queries = queries * self.config.query_scale
        return self.by_head(queries), self.by_head(self.k(keys)), self.by_head(self.v(values))

    def heads(
        self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None
    ) -> Heads:
        if mask is not None:
            raise ValueError('proj="conv" mixes neighbors and takes no mask: leave it out, or use proj="linear"')
        return super().heads(x, None, grid, rotation)


def _depthwise(dim: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(dim, dim, 3, stride, 1, groups=dim, bias=False), nn.BatchNorm2d(dim))
