"""Vision Transformer (arXiv:2010.11929) with any attention, stem, positions, pooling and head.

With `attention="fourier"` it is FNet, with `"mlp"` and `pool="mean"` MLP-Mixer.
"""
# B images  N tokens  D width  P class tokens

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Core, Grid, Shape
from vixformer.attention.projection import ProjectionOptions, build_attention
from vixformer.backbones.base import Backbone, BackboneConfig, Rate
from vixformer.blocks.block import Block
from vixformer.blocks.heads import make_head
from vixformer.blocks.mlp import MLP, activation
from vixformer.blocks.pooling import Pooling
from vixformer.blocks.positions import Positions
from vixformer.blocks.stems import Stem, StemOptions
from vixformer.registry import checked


class ViT(Backbone, name="vit"):
    @dataclass(frozen=True, kw_only=True)
    class Config(BackboneConfig):
        patch_size: PositiveInt = 4
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
        stem: str = "linear"
        stem_norm: bool = False
        stem_act: str | None = None
        pos: str = "learned"
        pool: str = "cls"
        head: Literal["linear", "mlp"] = "linear"
        act: str = "gelu"
        norm_place: Literal["pre", "post"] = "pre"
        drop_rate: Rate = 0.0
        pos_drop_rate: Rate = 0.0
        drop_path_rate: Rate = 0.0
        head_drop_rate: Rate = 0.0

        def __post_init__(self) -> None:
            activation(self.act)
            if self.stem_act is not None:
                activation(self.stem_act)
            if self.head_dim is None and self.embed_dim % self.num_heads:
                raise ValueError(
                    f"num_heads must divide embed_dim: {self.num_heads} does not divide {self.embed_dim}; choose another, or give head_dim"
                )

    variants: ClassVar[dict[str, dict[str, Any]]] = {
        f"vit-{size}": dict(img_size=224, num_classes=1000, patch_size=16, embed_dim=64 * heads, depth=12, num_heads=heads, mlp_ratio=4.0)
        for size, heads in (("tiny", 3), ("small", 6), ("base", 12))
    }

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config: Any = self.config  # with what was left out
        dim = config.embed_dim
        head_dim = config.head_dim or dim // config.num_heads
        stem = StemOptions(config.in_chans, dim, config.patch_size, config.stem_norm, config.stem_act)
        self.patch_embed: Stem = Stem.member(config.stem)(stem)
        self.grid: Grid = self.patch_embed.grid(*self.img_size)
        pool = Pooling.member(config.pool)
        self.num_tokens: int = pool.prefix + self.patch_embed.repeats * self.grid[0] * self.grid[1]

        self.cls_token = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, pool.prefix, dim), std=0.02)) if pool.prefix else None
        self.pos: Positions = Positions.member(config.pos)(dim, head_dim, self.grid, pool.prefix)
        self.pos_drop = nn.Dropout(config.pos_drop_rate)
        shape = Shape(dim, config.num_heads, head_dim, self.num_tokens)
        options = ProjectionOptions(config.qkv_bias, config.out_bias, config.drop_rate)
        hidden = config.mlp_dim or max(1, round(config.mlp_ratio * dim))
        rates = torch.linspace(0, config.drop_path_rate, config.depth).tolist()
        self.blocks = nn.ModuleList(
            Block(
                dim,
                build_attention(layer, shape, config.proj, options),
                MLP(dim, hidden, config.act, config.drop_rate),
                rate,
                config.norm_place,
            )
            for layer, rate in zip(self.layout.expand(config.depth), rates, strict=True)
        )
        self.norm = nn.LayerNorm(dim, eps=1e-6) if config.norm_place == "pre" else nn.Identity()
        self.pool: Pooling = pool(dim, self.num_tokens)
        self.head = self._make_head(config.num_classes)

    def _make_head(self, num_classes: int) -> nn.Module:
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

    def reset_classifier(self, num_classes: int) -> None:
        values = {field.name: getattr(self.config, field.name) for field in fields(self.config)}
        self.config = checked(type(self.config), {**values, "num_classes": num_classes}, "reset_classifier")
        self.head = self._make_head(num_classes).train(self.training)
        like = next(self.parameters())
        self.head.to(like.device, like.dtype)

    def no_weight_decay(self) -> set[str]:
        inside = {f"{name}." for name, module in self.named_modules() if isinstance(module, Core)}
        return {
            name
            for name, p in self.named_parameters()
            if p.dim() <= 1 or name in ("cls_token", "pos.embed") or name.startswith(tuple(inside))
        }
