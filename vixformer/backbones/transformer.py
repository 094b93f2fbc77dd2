"""What ViT and its kin share: a stem makes tokens, blocks let them attend, a pool makes one vector, a head classifies it."""
# B images  N tokens  D width  P class tokens

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Grid, Shape
from vixformer.attention.projection import ProjectionOptions
from vixformer.backbones.base import Backbone, BackboneConfig, Rate
from vixformer.blocks.block import BlockOptions, NormPlace, make_blocks
from vixformer.blocks.heads import make_head
from vixformer.blocks.mlp import activation
from vixformer.blocks.norms import NormName, make_norm
from vixformer.blocks.pooling import Pooling
from vixformer.blocks.positions import Positions
from vixformer.blocks.stems import Stem


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BackboneConfig):
    embed_dim: PositiveInt = 128
    depth: PositiveInt = 6
    num_heads: PositiveInt = 4
    head_dim: PositiveInt | None = None
    """Width of a head; left out, embed_dim / num_heads."""
    mlp_ratio: PositiveFloat = 2.0
    mlp_dim: PositiveInt | None = None
    """Width of the MLP; left out, mlp_ratio * embed_dim."""
    proj: str = "linear"
    qkv_bias: bool = True
    out_bias: bool = True
    pos: str = "learned"
    pool: str = "cls"
    head: Literal["linear", "mlp"] = "linear"
    act: str = "gelu"
    norm: NormName = "layer"
    norm_place: NormPlace = "pre"
    drop_rate: Rate = 0.0
    pos_drop_rate: Rate = 0.0
    drop_path_rate: Rate = 0.0
    head_drop_rate: Rate = 0.0

    def __post_init__(self) -> None:
        activation(self.act)
        if self.head_dim is None and self.embed_dim % self.num_heads:
            raise ValueError(
                f"num_heads must divide embed_dim: {self.num_heads} does not divide {self.embed_dim}; choose another, or give head_dim"
            )


class Transformer(Backbone):
    """One stage of blocks on the tokens of a stem."""

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        config: Any = self.config  # with what was left out
        dim = config.embed_dim
        head_dim = config.head_dim or dim // config.num_heads
        self.patch_embed: Stem = self.make_stem()
        self.grid: Grid = self.patch_embed.grid(*self.img_size)
        pool = Pooling.member(config.pool)
        self.num_tokens: int = pool.prefix + self.patch_embed.repeats * self.grid[0] * self.grid[1]

        self.cls_token = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, pool.prefix, dim), std=0.02)) if pool.prefix else None
        self.pos: Positions = Positions.member(config.pos)(dim, head_dim, self.grid, pool.prefix)
        self.pos_drop = nn.Dropout(config.pos_drop_rate)
        options = BlockOptions(
            mlp_dim=config.mlp_dim or max(1, round(config.mlp_ratio * dim)),
            act=config.act,
            drop=config.drop_rate,
            norm=config.norm,
            norm_place=config.norm_place,
            proj=config.proj,
            projection=ProjectionOptions(config.qkv_bias, config.out_bias, config.drop_rate),
        )
        rates = torch.linspace(0, config.drop_path_rate, config.depth).tolist()
        self.blocks = make_blocks(self.layout.expand(config.depth), Shape(dim, config.num_heads, head_dim, self.num_tokens), options, rates)
        self.norm = nn.Identity() if config.norm_place == "post" else make_norm(config.norm, dim)
        self.pool: Pooling = pool(dim, self.num_tokens)
        self.head = self.make_head(config.num_classes)

    def make_stem(self) -> Stem:
        raise NotImplementedError

    def make_head(self, num_classes: int) -> nn.Module:
        return make_head(self.config.head, self.pool.out_dim, num_classes, self.config.act, self.config.head_drop_rate)

    def tokens(self, x: Tensor) -> tuple[Tensor, Grid]:
        """Images -> tokens with their positions, and the grid they lie on."""
        self.check_images(x)
        grid = self.patch_embed.grid(*x.shape[-2:])
        x = self.patch_embed(x)
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        added = self.pos.added(grid, self.patch_embed.repeats, x.device)
        return self.pos_drop(x if added is None else x + added.to(x.dtype)), grid

    def _run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        """Tokens after each block."""
        x, grid = self.tokens(x)
        repeats = self.patch_embed.repeats
        rotation = self.pos.rotation(grid, repeats, x.device)
        for block in self.blocks:
            # repeated grids are no image to a mechanism that looks at neighbours
            x = block(x, grid=grid if repeats == 1 else None, rotation=rotation)
            yield x, grid

    def forward_features(self, x: Tensor) -> Tensor:
        for x, _ in self._run(x):  # noqa: B007, B020
            pass
        return self.norm(x)

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        if self.patch_embed.repeats > 1:
            raise ValueError(f'stem="{self.config.stem}" puts several tokens on each place, so there is no map: use another stem')
        return [tokens[:, self.pool.prefix :].transpose(1, 2).unflatten(-1, grid) for tokens, grid in self._run(x)]

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(self.pool(x))
