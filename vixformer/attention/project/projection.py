"""What a block calls: a projection around a core, or a mixer. The way of projecting is the backbone's choice, never the
mechanism's."""

# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vixformer.attention.base import Core, Mechanism, Mixer, Shape
from vixformer.attention.inputs import check_tokens
from vixformer.jsonfile import Values
from vixformer.nn.dense import Linear
from vixformer.nn.dropout import Dropout
from vixformer.ops import Grid, Rotation, check_rotation, rotate
from vixformer.registry import Configured, Settings

Heads = tuple[Tensor, Tensor, Tensor]
"""q, k, v, each (B, H, N, K)."""


class Attention(nn.Module, Configured, family="projection"):
    """Tokens (B, N, D) -> tokens: project, rotate, let the core attend, put the heads back together.

    `mask` is boolean (B, N), true = keep: what the other tokens hold changes nothing. `grid` is the (height, width) of
    the tokens that lie on one. `rotation` holds the cosines and sines of rotary positions, (N, K / 2) each.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Settings):
        owner: ClassVar[type[Attention]]
        qkv_bias: bool = True
        out_bias: bool = True
        drop: float = 0.0

    config: Config
    keeps_grid = True
    """Whether keys lie on the grid of the tokens."""
    strided = False
    """Whether there are fewer keys than queries, or the other way round."""

    def __init__(self, config: Config, core: Core) -> None:
        super().__init__()
        self.config, self.core = config, core
        self.make_projections(core.shape)
        self.proj = self.make_output(core.shape)
        self.drop = Dropout(config.drop)
        if core.square and self.strided:
            raise ValueError(
                f"{core.name} needs as many keys as queries, and here there are fewer of one: use another mechanism, or"
                " no stride"
            )

    def make_projections(self, shape: Shape) -> None:
        raise NotImplementedError

    def make_output(self, shape: Shape) -> nn.Module:
        return Linear(shape.num_heads * shape.head_dim, shape.dim, bias=self.config.out_bias)

    def split(self, x: Tensor, grid: Grid | None) -> Heads:
        raise NotImplementedError

    def turned(self, x: Tensor, grid: Grid | None, rotation: Rotation) -> Heads:
        """The same with q and k turned."""
        q, k, v = self.split(x, grid)
        if q.shape[2] != k.shape[2]:
            raise ValueError(
                f"rotary positions need as many keys as queries, and there are {k.shape[2]} and {q.shape[2]}: use no"
                " stride"
            )
        return rotate(q, *rotation), rotate(k, *rotation), v

    def heads(
        self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None
    ) -> Heads:
        """q, k, v as the core gets them."""
        check_tokens(x, self.core.shape.dim, mask, grid)
        if rotation is not None:
            check_rotation(rotation, x.shape[1], self.core.shape.head_dim)
        if mask is not None:
            x = x.masked_fill(~mask[..., None], 0.0)  # even a NaN in a masked token stays there
        return self.split(x, grid) if rotation is None else self.turned(x, grid, rotation)

    def grid_of(self, options: Values) -> Grid | None:
        """The grid of its keys, as its core gets it when it is called with these options."""
        return options.get("grid") if self.keeps_grid else None

    def by_head(self, x: Tensor) -> Tensor:
        """(B, N, H K) -> (B, H, N, K)."""
        return x.unflatten(-1, (self.core.shape.num_heads, -1)).transpose(1, 2)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None
    ) -> Tensor:
        q, k, v = self.heads(x, mask, grid, rotation)
        with full_precision(x):
            out = self.core(q, k, v, mask, grid if self.keeps_grid else None)
        return self.drop(self.proj(out.transpose(1, 2).flatten(2)))

    def attention_map(
        self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None
    ) -> Tensor:
        """(B, H, N, N), for small N: rows are the tokens that look, columns those looked at."""
        q, k, _ = self.heads(x, mask, grid, rotation)
        with full_precision(x):
            return self.core.attention_map(*self.core.looking(q, k, mask, grid if self.keeps_grid else None), mask)


class Mixing(nn.Module):
    """The same face for a mechanism without q and k."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(
        self, x: Tensor, mask: Tensor | None = None, grid: Grid | None = None, rotation: Rotation | None = None
    ) -> Tensor:
        check_tokens(x, self.mixer.shape.dim, mask, grid)
        if mask is not None:
            raise ValueError(
                f"{self.mixer.name} mixes all tokens alike and takes no mask: leave it out, or use a mechanism with q"
                " and k"
            )
        return self.mixer(x, grid) if self.mixer.uses_grid else self.mixer(x)

    def attention_map(self, x: Tensor, **_: object) -> Tensor:
        raise ValueError(f"{self.mixer.name} has no attention map: it has neither q nor k")


def projection(word: str, **options: object) -> Attention.Config:
    """From the flat options of a backbone to the configuration of its projection. The backbone refuses those that do
    not go with it."""
    config = Attention.member(word).Config
    known = {field.name for field in fields(config)}
    return config(**{name: value for name, value in options.items() if name in known})


def build_attention(layer: Mechanism.Config, shape: Shape, config: Attention.Config) -> Attention | Mixing:
    """One layer of a layout in the projection that a backbone gives it."""
    mechanism = layer.owner(layer, shape)
    if isinstance(mechanism, Mixer):
        return Mixing(mechanism)
    assert isinstance(mechanism, Core)
    return config.owner(config, mechanism)


def mechanism_of(module: Any) -> Mechanism:
    """Of a layer of ours, or a patched one of somebody else's model."""
    return module.mixer if isinstance(module, Mixing) else module.core


def output_of(module: Any, tokens: Tensor, options: Values) -> Tensor:
    """What a layer gives for tokens; others' layers return their attention weights too."""
    out = module(tokens, **options)
    return out[0] if isinstance(out, tuple) else out


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Cores choose their own precision: q, k and v arrive in that of autocast, but sums that a core makes float32 must
    stay so."""
    kind = x.device.type
    on = kind != "meta" and torch.is_autocast_enabled(kind)  # torch 2.5 cannot compile is_autocast_available
    return torch.autocast(kind, enabled=False) if on else nullcontext()
