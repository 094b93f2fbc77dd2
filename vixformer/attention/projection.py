"""From tokens to q, k, v and back: the module that a block calls. The way of projecting is the backbone's choice, never the mechanism's."""
# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vixformer.attention.activations import activation
from vixformer.attention.base import Core, Grid, Mechanism, Mixer, Shape
from vixformer.attention.checks import check_tokens
from vixformer.attention.dropout import Dropout
from vixformer.ops import Rotation, check_rotation, rotate, split_heads
from vixformer.registry import Named


@dataclass(frozen=True)
class ProjectionOptions:
    qkv_bias: bool = True
    out_bias: bool = True
    drop: float = 0.0
    kv_stride: int = 1
    """Of the convolutions that make keys and values, for `conv`."""
    shared_kv: bool = False
    """Whether one convolution makes both, for `conv`."""
    value_ratio: int = 1
    """How much wider values are than queries and keys, for `batch`."""
    stride: int = 1
    """Every how manieth row and column asks, for `batch`."""
    out_dim: int | None = None
    """Width of the tokens that come out, for `batch`; left out, that of those that go in."""
    act: str = "gelu"
    """Before the output projection, for `batch`."""
    query_scale: float = 1.0
    """Queries times this, for `conv`: CvT divides scores by the root of the width, not of the head's."""


class Attention(nn.Module, Named, family="projection"):
    """Tokens (B, N, D) -> tokens: project, rotate, let the core attend, put the heads back together.

    `mask` is boolean (B, N), true = keep: what the other tokens hold changes nothing. `grid` is the (height, width) of the tokens that lie
    on one. `rotation` holds the cosines and sines of rotary positions, (N, K / 2) each.
    """

    keeps_grid = True
    """Whether keys lie on the grid of the tokens."""

    def __init__(self, core: Core, options: ProjectionOptions) -> None:
        super().__init__()
        self.core = core
        shape = core.shape
        if core.square and max(options.kv_stride, options.stride) > 1:
            raise ValueError(
                f"{core.name} needs as many keys as queries, and here there are fewer of one: use another mechanism, or no stride"
            )
        self.make_projections(shape, options)
        self.proj = self.make_output(shape, options)
        self.drop = Dropout(options.drop)

    def make_projections(self, shape: Shape, options: ProjectionOptions) -> None:
        raise NotImplementedError

    def make_output(self, shape: Shape, options: ProjectionOptions) -> nn.Module:
        return nn.Linear(shape.num_heads * shape.head_dim, shape.dim, bias=options.out_bias)

    def split(self, x: Tensor, grid: Grid | None) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v, each (B, H, N, K)."""
        raise NotImplementedError

    def turned(self, x: Tensor, grid: Grid | None, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """The same with q and k turned."""
        q, k, v = self.split(x, grid)
        if q.shape[2] != k.shape[2]:
            raise ValueError(f"rotary positions need as many keys as queries, and there are {k.shape[2]} and {q.shape[2]}: use no stride")
        return rotate(q, *rotation), rotate(k, *rotation), v

    def heads(
        self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v as the core gets them."""
        check_tokens(x, self.core.shape.dim, mask, grid)
        if rotation is not None:
            check_rotation(rotation, x.shape[1], self.core.shape.head_dim)
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)  # even a NaN in a masked token stays there
        return self.split(x, grid) if rotation is None else self.turned(x, grid, rotation)

    def forward(self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None) -> Tensor:
        q, k, v = self.heads(x, mask, grid, rotation)
        with full_precision(x):
            out = self.core(q, k, v, mask, grid if self.keeps_grid else None)
        return self.drop(self.proj(out.transpose(1, 2).flatten(2)))

    def attention_map(self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None) -> Tensor:
        """(B, H, N, N), for small N: rows are the tokens that look, columns those looked at."""
        q, k, _ = self.heads(x, mask, grid, rotation)
        with full_precision(x):
            return self.core.attention_map(*self.core.looking(q, k, mask, grid if self.keeps_grid else None), mask)


class LinearProjection(Attention, name="linear"):
    """One linear layer for q, k and v."""

    def make_projections(self, shape: Shape, options: ProjectionOptions) -> None:
        self.qkv = nn.Linear(shape.dim, 3 * shape.num_heads * shape.head_dim, bias=options.qkv_bias)

    def split(self, x: Tensor, grid: Grid | None) -> tuple[Tensor, Tensor, Tensor]:
        return split_heads(self.qkv(x), self.core.shape.num_heads)

    def turned(self, x: Tensor, grid: Grid | None, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        return split_heads(self.qkv(x), self.core.shape.num_heads, rotation)


class OneKeyValueHead(Attention, name="one-kv"):
    """Queries for every head, and a single head that is the keys and the values of all of them ("Vision Xformers", for its Linformer)."""

    def make_projections(self, shape: Shape, options: ProjectionOptions) -> None:
        self.q = nn.Linear(shape.dim, shape.num_heads * shape.head_dim, bias=options.qkv_bias)
        self.kv = nn.Linear(shape.dim, shape.head_dim, bias=options.qkv_bias)

    def split(self, x: Tensor, grid: Grid | None) -> tuple[Tensor, Tensor, Tensor]:
        heads = self.core.shape.num_heads
        q = self.q(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        kv = self.kv(x).unsqueeze(1).expand_as(q)
        return q, kv, kv


class SharedKeyValue(Attention, name="shared-kv"):
    """Keys that are also the values, in every head: rotary positions turn the keys alone ("Vision Xformers", for its rotary Linformer)."""

    def make_projections(self, shape: Shape, options: ProjectionOptions) -> None:
        inner = shape.num_heads * shape.head_dim
        self.q, self.kv = (nn.Linear(shape.dim, inner, bias=options.qkv_bias) for _ in range(2))

    def split(self, x: Tensor, grid: Grid | None) -> tuple[Tensor, Tensor, Tensor]:
        q, kv = (t.unflatten(-1, (self.core.shape.num_heads, -1)).transpose(1, 2) for t in (self.q(x), self.kv(x)))
        return q, kv, kv


class ConvProjection(Attention, name="conv"):
    """q, k and v by a depthwise 3 x 3 convolution, batch norm and a linear layer, as in CvT; class tokens by the linear layer alone.

    With `kv_stride` there are fewer keys than queries, and mechanisms that look at the grid do without it.
    """

    def make_projections(self, shape: Shape, options: ProjectionOptions) -> None:
        inner = shape.num_heads * shape.head_dim
        self.kv_stride, self.query_scale = options.kv_stride, options.query_scale
        self.keeps_grid = options.kv_stride == 1
        self.q_conv = _depthwise(shape.dim, 1)
        self.q = nn.Linear(shape.dim, inner, bias=options.qkv_bias)
        self.k_conv = _depthwise(shape.dim, options.kv_stride)
        self.v_conv = None if options.shared_kv else _depthwise(shape.dim, options.kv_stride)
        self.k = nn.Linear(shape.dim, inner, bias=options.qkv_bias)
        self.v = nn.Linear(shape.dim, inner, bias=options.qkv_bias)

    def split(self, x: Tensor, grid: Grid | None) -> tuple[Tensor, Tensor, Tensor]:
        if grid is None:
            raise ValueError('proj="conv" needs to know the grid that the tokens lie on: pass grid=(height, width)')
        prefix = x.shape[1] - grid[0] * grid[1]
        image = x[:, prefix:].transpose(1, 2).unflatten(-1, grid)

        def convolved(conv: nn.Module) -> Tensor:
            return torch.cat([x[:, :prefix], conv(image).flatten(2).transpose(1, 2)], 1)

        keys = convolved(self.k_conv)
        values = keys if self.v_conv is None else convolved(self.v_conv)
        queries = self.q(convolved(self.q_conv))
        made = queries if self.query_scale == 1 else queries * self.query_scale, self.k(keys), self.v(values)
        return tuple(t.unflatten(-1, (self.core.shape.num_heads, -1)).transpose(1, 2) for t in made)  # pyright: ignore

    def heads(
        self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        if mask is not None:
            raise ValueError('proj="conv" mixes neighbours and takes no mask: leave it out, or use proj="linear"')
        if rotation is not None and self.kv_stride > 1:
            raise ValueError(f"rotary positions need as many keys as queries: use kv_stride=1, not {self.kv_stride}")
        return super().heads(x, None, grid, rotation)


class BatchNormProjection(Attention, name="batch"):
    """q, k and v each by a linear layer and batch norm, an activation and the same for the output, as in LeViT.

    With `stride` only every so manieth row and column asks, and the grid shrinks.
    """

    def make_projections(self, shape: Shape, options: ProjectionOptions) -> None:
        inner = shape.num_heads * shape.head_dim
        self.stride = options.stride
        self.q, self.k = (LinearNorm(shape.dim, inner, options.qkv_bias) for _ in range(2))
        self.v = LinearNorm(shape.dim, inner * options.value_ratio, options.qkv_bias)

    def make_output(self, shape: Shape, options: ProjectionOptions) -> nn.Module:
        inner = shape.num_heads * shape.head_dim * options.value_ratio
        return nn.Sequential(activation(options.act), LinearNorm(inner, options.out_dim or shape.dim, bias=options.out_bias))

    def split(self, x: Tensor, grid: Grid | None) -> tuple[Tensor, Tensor, Tensor]:
        asking = x
        if self.stride > 1:
            if grid is None:
                raise ValueError("attention that shrinks the grid needs to know it: pass grid=(height, width)")
            if grid[0] * grid[1] != x.shape[1]:
                raise ValueError(
                    f"attention that shrinks the grid needs every token on it, and {grid[0]} x {grid[1]} is not {x.shape[1]}: "
                    "pass the grid of these tokens"
                )
            asking = x.unflatten(1, grid)[:, :: self.stride, :: self.stride].flatten(1, 2)
        made = self.q(asking), self.k(x), self.v(x)
        return tuple(t.unflatten(-1, (self.core.shape.num_heads, -1)).transpose(1, 2) for t in made)  # pyright: ignore


class LinearNorm(nn.Module):
    """A linear layer and batch norm over all tokens of all images."""

    def __init__(self, before: int, after: int, bias: bool = False) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(before, after, bias=bias), nn.BatchNorm1d(after)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x).flatten(0, 1)).unflatten(0, x.shape[:2])


def _depthwise(dim: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(dim, dim, 3, stride, 1, groups=dim, bias=False), nn.BatchNorm2d(dim))


class Mixing(nn.Module):
    """The same face for a mechanism without q and k."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None) -> Tensor:
        check_tokens(x, self.mixer.shape.dim, mask, grid)
        if mask is not None:
            raise ValueError(f"{self.mixer.name} mixes all tokens alike and takes no mask: leave it out, or use a mechanism with q and k")
        return self.mixer(x, grid) if self.mixer.uses_grid else self.mixer(x)

    def attention_map(self, x: Tensor, **_: Any) -> Tensor:
        raise ValueError(f"{self.mixer.name} has no attention map: it has neither q nor k")


def build_attention(config: Any, shape: Shape, proj: str = "linear", options: ProjectionOptions | None = None) -> Attention | Mixing:
    mechanism: Mechanism = config.owner(config, shape)
    if isinstance(mechanism, Mixer):
        return Mixing(mechanism)
    return Attention.member(proj)(mechanism, options or ProjectionOptions())


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Cores choose their own precision: q, k and v arrive in that of autocast, but sums that a core makes float32 must stay so."""
    kind = x.device.type
    on = kind != "meta" and torch.is_autocast_enabled(kind)  # torch 2.5 cannot compile is_autocast_available
    return torch.autocast(kind, enabled=False) if on else nullcontext()
