"""LeViT (arXiv:2104.01136): a convolutional stem, attention between batch norms, stages joined by attention that halves
the grid.

The published sizes add a learned bias for every distance to their exact attention. A linear mechanism has no scores to
add it to, so such a layout needs `attention_bias=false`, which is how "Vision Xformers" compared them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, ClassVar

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.attention.layout import Layer, parse, print_layer
from vixformer.attention.project.projection import Attention, Mixing, build_attention
from vixformer.attention.softmax import Softmax
from vixformer.backbones.backbone import Sizes
from vixformer.backbones.staged import BlockOptions, Staged, StagedConfig, make_blocks, one_grid
from vixformer.jsonfile import Values
from vixformer.nn.activations import Activation
from vixformer.nn.dense import Linear
from vixformer.nn.mlp import MLP
from vixformer.nn.norms import NormName
from vixformer.nn.pooling import Mean
from vixformer.nn.positions import Positions
from vixformer.nn.stems import Stem, StemOptions
from vixformer.ops import Grid

SHRINK = 2


class LeViT(Staged, name="levit"):
    @dataclass(frozen=True, kw_only=True)
    class Config(StagedConfig):
        patch_size: PositiveInt = 4
        """Product of the strides of the stem."""
        stem: Annotated[str, Stem] = "conv"
        """How the image becomes tokens."""
        stem_norm: bool = False
        """Batch norm in the stem."""
        stem_act: Annotated[str, Activation] | None = None
        """Activation in the stem."""
        dims: Sizes = (128,)
        """Width of every stage."""
        depths: Sizes = (4,)
        """Number of blocks in every stage."""
        num_heads: Sizes = (4,)
        """Number of attention heads in every stage."""
        head_dim: PositiveInt = 32
        """Width of a head."""
        value_ratio: PositiveInt = 1
        """Width of values, relative to that of queries and keys."""
        shrink: str = "softmax"
        """Attention between stages, where only every second row and column produces a query: one mechanism with q and
        k."""
        shrink_ratio: PositiveInt = 4
        """value_ratio of the attention between stages."""
        attention_bias: bool = False
        """A learned bias for every distance, for layouts of softmax alone."""
        proj: Annotated[str, Attention] = "batch"
        qkv_bias: bool = False
        norm: NormName = "none"
        mlp_norm: bool = False
        """Batch norm instead of biases in the MLPs."""
        pos: Annotated[str, Positions] = "none"
        """Positions that tokens get."""
        act: Annotated[str, Activation] = "hardswish"
        attn_act: Annotated[str, Activation] = "gelu"
        """Activation before the output projection of proj="batch"."""
        head_norm: bool = False
        """Batch norm before the classifier."""
        distilled: bool = False
        """Two classifiers, one of which learned from a teacher; the answer is their mean."""

        @property
        def stage_depths(self) -> tuple[int, ...]:
            return self.depths

        def __post_init__(self) -> None:
            super().__post_init__()
            self.check_stages("dims", "depths", "num_heads")
            if self.proj != "batch" and self.value_ratio != 1:
                raise ValueError(f'value_ratio goes with proj="batch": leave it out for proj="{self.proj}"')

    config: Config

    variants: ClassVar[dict[str, Values]] = {
        name: dict(
            img_size=224, num_classes=1000, patch_size=16, stem="levit", dims=dims, depths=depths, num_heads=heads,
            head_dim=width,
            value_ratio=2, attention_bias=True, out_bias=False, mlp_norm=True, attn_act="hardswish", head_norm=True,
            distilled=True,
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
        config = self.config
        options = StemOptions(self.in_chans, config.dims[0], config.patch_size, config.stem_norm, config.stem_act)
        self.patch_embed = one_grid(Stem.member(config.stem)(options))
        self.grid = grid = self.patch_embed.grid(*self.img_size)
        self.pos = Positions.member(config.pos)(config.dims[0], config.head_dim, grid, 0)
        layers = ((self._biased(layer), rate) for layer, rate in self.layers(config.drop_path_rate, *config.depths))
        self.shrinks, self.stages = nn.ModuleList(), nn.ModuleList()
        before = config.dims[0]
        for i, (dim, depth, heads) in enumerate(zip(config.dims, config.depths, config.num_heads, strict=True)):
            if i:
                self.shrinks.append(self._shrink(before, dim, grid))
                before, grid = dim, _shrunk(grid)
            shape = Shape(
                dim, heads, config.head_dim, grid[0] * grid[1], grid, value_dim=config.value_ratio * config.head_dim
            )
            self.stages.append(
                make_blocks(islice(layers, depth), shape, self._options(dim, value_ratio=config.value_ratio))
            )
        self.norm = nn.Identity()
        self.pool = Mean(before)
        self.head = self.make_head(self.num_classes)

    def _options(self, dim: int, **projection: object) -> BlockOptions:
        return self.config.block_options(
            dim, dict(act=self.config.attn_act, **projection), mlp_norm=self.config.mlp_norm
        )

    def attentions(self) -> list[Attention | Mixing]:
        """Those of the layout; the ones between stages are `shrink`'s."""
        return [module for stage in self.stages for module in stage.modules() if isinstance(module, Attention | Mixing)]

    def spelled_out(self) -> Config:
        if not self.config.attention_bias:
            return self.config
        (shrink,) = parse(self.config.shrink).expand(1)
        return replace(
            self.config, attention=self.attention_expression(), shrink=print_layer(self._biased(shrink)),
            attention_bias=False
        )  # fmt: skip

    def _biased(self, layer: Layer) -> Layer:
        if not self.config.attention_bias:
            return layer
        if not isinstance(layer, Softmax.Config):
            raise ValueError(
                f"attention_bias is added to the scores of exact attention, and {layer.owner.name} has none: set"
                " attention_bias=false"
            )
        return replace(layer, bias=True)

    def _shrink(self, before: int, after: int, grid: Grid) -> nn.Module:
        config = self.config
        layout = parse(config.shrink)
        if len(layout.stages) > 1:
            raise ValueError(
                f'shrink is one mechanism, such as softmax, for the attention between any stages, not "{config.shrink}"'
            )
        (layer,) = layout.expand(1)
        width = config.head_dim
        shape = Shape(
            before, max(1, before // width), width, grid[0] * grid[1], grid, value_dim=config.shrink_ratio * width
        )
        options = self._options(after)
        projection = config.projection(
            "batch", act=config.attn_act, value_ratio=config.shrink_ratio, stride=SHRINK, out_dim=after
        )
        attention = build_attention(self._biased(layer), shape, projection)
        if isinstance(attention, Mixing):
            raise ValueError(f"shrink needs a mechanism with q and k, not {config.shrink}")
        return Shrink(attention, MLP(after, options.mlp_dim, options.act, options.drop, options.mlp_norm))

    def make_head(self, num_classes: int) -> nn.Module:
        if not num_classes:
            return nn.Identity()
        heads = [Linear(self.config.dims[-1], num_classes) for _ in range(1 + self.config.distilled)]
        normed = (
            [nn.Sequential(nn.BatchNorm1d(head.in_features), head) for head in heads]
            if self.config.head_norm
            else heads
        )
        return MeanOf(*normed) if self.config.distilled else normed[0]

    def start(self, x: Tensor) -> tuple[Tensor, Grid]:
        grid = self.patch_embed.grid(*x.shape[-2:])
        return self.pos.add(self.patch_embed(x), grid), grid

    def between(self, stage: int, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        return self.shrinks[stage - 1](x, grid), _shrunk(grid)


def _shrunk(grid: Grid) -> Grid:
    return -(-grid[0] // SHRINK), -(-grid[1] // SHRINK)


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
