"""LeViT (arXiv:2104.01136): a convolutional stem, attention between batch norms, stages joined by attention that halves the grid.

The published sizes add a learned bias for every distance to their exact attention. A linear mechanism has no scores to add it to, so such a
layout needs `attention_bias=false`, which is how "Vision Xformers" compared them.
"""
# B images  N tokens  D width

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Core, Grid, Shape
from vixformer.attention.layout import parse
from vixformer.attention.projection import Attention, LinearNorm, Mixing, ProjectionOptions, build_attention
from vixformer.attention.softmax import Softmax
from vixformer.backbones.base import Backbone, BackboneConfig, Rate
from vixformer.blocks.block import Block
from vixformer.blocks.mlp import MLP, activation
from vixformer.blocks.norms import NormName
from vixformer.blocks.positions import Positions
from vixformer.blocks.stems import Stem, StemOptions

SHRINK = 2


class LeViT(Backbone, name="levit"):
    @dataclass(frozen=True, kw_only=True)
    class Config(BackboneConfig):
        patch_size: PositiveInt = 4
        """What the strides of the stem multiply to."""
        stem: str = "conv"
        stem_norm: bool = False
        stem_act: str | None = None
        dims: tuple[PositiveInt, ...] = (128,)
        """Width of every stage."""
        depths: tuple[PositiveInt, ...] = (4,)
        num_heads: tuple[PositiveInt, ...] = (4,)
        head_dim: PositiveInt = 32
        value_ratio: PositiveInt = 1
        """How much wider values are than queries and keys."""
        shrink: str = "softmax"
        """The attention between stages, of which only every second row and column asks: one mechanism with q and k."""
        shrink_ratio: PositiveInt = 4
        """value_ratio of the attention between stages."""
        attention_bias: bool = False
        """A learned bias for every distance, for layouts of softmax alone."""
        proj: str = "batch"
        qkv_bias: bool = False
        out_bias: bool = True
        norm: NormName = "none"
        mlp_ratio: PositiveFloat = 2.0
        mlp_norm: bool = False
        """Batch norm instead of biases in the MLPs."""
        pos: str = "none"
        act: str = "hardswish"
        attn_act: str = "gelu"
        """Before the output projection of proj="batch"."""
        head_norm: bool = False
        """Batch norm before the head."""
        distilled: bool = False
        """Two heads, of which one learned from a teacher; the answer is their mean."""
        drop_path_rate: Rate = 0.0

        def __post_init__(self) -> None:
            activation(self.act)
            for name in ("depths", "num_heads"):
                if (count := len(getattr(self, name))) != len(self.dims):
                    raise ValueError(f"dims has {len(self.dims)} stages and {name} {count}: give each one number a stage")
            if self.proj != "batch" and self.value_ratio != 1:
                raise ValueError(f'value_ratio goes with proj="batch": leave it out for proj="{self.proj}"')

    variants: ClassVar[dict[str, dict[str, Any]]] = {
        name: dict(
            img_size=224, num_classes=1000, patch_size=16, stem="levit", dims=dims, depths=depths, num_heads=heads, head_dim=width,
            value_ratio=2, attention_bias=True, out_bias=False, mlp_norm=True, attn_act="hardswish", head_norm=True, distilled=True,
        )
        for name, dims, depths, heads, width in (
            ("levit-128s", (128, 256, 384), (2, 3, 4), (4, 6, 8), 16),
            ("levit-128", (128, 256, 384), (4, 4, 4), (4, 8, 12), 16),
            ("levit-192", (192, 288, 384), (4, 4, 4), (3, 5, 6), 32),
            ("levit-256", (256, 384, 512), (4, 4, 4), (4, 6, 8), 32),
            ("levit-384", (384, 512, 768), (4, 4, 4), (6, 9, 12), 32),
        )
    }  # fmt: skip

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config: Any = self.config
        self.patch_embed: Stem = Stem.member(config.stem)(
            StemOptions(config.in_chans, config.dims[0], config.patch_size, config.stem_norm, config.stem_act)
        )
        self.grid = grid = self.patch_embed.grid(*self.img_size)
        self.pos: Positions = Positions.member(config.pos)(config.dims[0], config.head_dim, grid, 0)
        layers = iter([self._biased(layer) for layer in self.layout.expand(*config.depths)])
        rates = iter(torch.linspace(0, config.drop_path_rate, sum(config.depths)).tolist())
        self.shrinks, self.stages = nn.ModuleList(), nn.ModuleList()
        before = config.dims[0]
        for i, (dim, depth, heads) in enumerate(zip(config.dims, config.depths, config.num_heads, strict=True)):
            if i:
                self.shrinks.append(self._shrink(before, dim, grid))
                before, grid = dim, (-(-grid[0] // SHRINK), -(-grid[1] // SHRINK))
            shape = Shape(dim, heads, config.head_dim, grid[0] * grid[1], grid)
            options = ProjectionOptions(config.qkv_bias, config.out_bias, value_ratio=config.value_ratio, act=config.attn_act)
            self.stages.append(
                nn.ModuleList(
                    Block(dim, build_attention(next(layers), shape, config.proj, options), self._mlp(dim), next(rates), "pre", config.norm)
                    for _ in range(depth)
                )
            )
        self.head = self.make_head(config.num_classes)

    def attentions(self) -> list[Attention | Mixing]:
        """Those of the layout; the ones between stages are `shrink`'s."""
        return [block.attn for stage in self.stages for block in stage]  # pyright: ignore

    def _biased(self, layer: Any) -> Any:
        if not self.config.attention_bias:
            return layer
        if not isinstance(layer, Softmax.Config):
            name = layer.owner.name  # pyright: ignore[reportAttributeAccessIssue]
            raise ValueError(f"attention_bias is added to the scores of exact attention, and {name} has none: set attention_bias=false")
        return replace(layer, bias=True)

    def _shrink(self, before: int, after: int, grid: Grid) -> nn.Module:
        config: Any = self.config
        layout = parse(config.shrink)
        (layer,) = layout.expand(1)
        shape = Shape(before, max(1, before // config.head_dim), config.head_dim, grid[0] * grid[1], grid)
        options = ProjectionOptions(
            config.qkv_bias, config.out_bias, value_ratio=config.shrink_ratio, stride=SHRINK, out_dim=after, act=config.attn_act
        )
        attention = build_attention(self._biased(layer), shape, "batch", options)
        if isinstance(attention, Mixing) or not isinstance(attention.core, Core):
            raise ValueError(f"shrink needs a mechanism with q and k, not {config.shrink}")
        return Shrink(attention, self._mlp(after))

    def _mlp(self, dim: int) -> nn.Module:
        hidden = max(1, round(self.config.mlp_ratio * dim))
        if not self.config.mlp_norm:
            return MLP(dim, hidden, self.config.act)
        return nn.Sequential(LinearNorm(dim, hidden), activation(self.config.act), LinearNorm(hidden, dim))

    def make_head(self, num_classes: int) -> nn.Module:
        if not num_classes:
            return nn.Identity()
        heads = [nn.Linear(self.config.dims[-1], num_classes) for _ in range(1 + self.config.distilled)]
        normed = [nn.Sequential(nn.BatchNorm1d(head.in_features), head) for head in heads] if self.config.head_norm else heads
        return MeanOf(*normed) if self.config.distilled else normed[0]

    def _run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        """Tokens after each block."""
        self.check_images(x)
        grid = self.patch_embed.grid(*x.shape[-2:])
        x = self.patch_embed(x)
        added = self.pos.added(grid, 1, x.device)
        x = x if added is None else x + added.to(x.dtype)
        for i, stage in enumerate(self.stages):
            if i:
                x = self.shrinks[i - 1](x, grid)
                grid = (-(-grid[0] // SHRINK), -(-grid[1] // SHRINK))
            rotation = self.pos.rotation(grid, 1, x.device)
            for block in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = block(x, grid=grid, rotation=rotation)
                yield x, grid

    def forward_features(self, x: Tensor) -> Tensor:
        for x, _ in self._run(x):  # noqa: B007, B020
            pass
        return x

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        return [tokens.transpose(1, 2).unflatten(-1, grid) for tokens, grid in self._run(x)]

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(x.mean(1))


class Shrink(nn.Module):
    """Attention of every second row and column to all, then an MLP with its residual."""

    def __init__(self, attn: Attention, mlp: nn.Module) -> None:
        super().__init__()
        self.shrinking, self.mlp = attn, mlp

    def forward(self, x: Tensor, grid: Grid) -> Tensor:
        x = self.shrinking(x, grid=grid)
        return x + self.mlp(x)


class MeanOf(nn.ModuleList):
    def __init__(self, *heads: nn.Module) -> None:
        super().__init__(heads)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([head(x) for head in self]).mean(0)
