"""What backbones made of blocks share: tokens go through stages of blocks, and something may happen to their grid
between stages."""

# B images  N tokens  D width  P class tokens

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.attention.layout import Layer
from vixformer.attention.project.projection import Attention, build_attention, projection
from vixformer.backbones.backbone import Backbone, BackboneConfig, Rate
from vixformer.jsonfile import Given
from vixformer.nn.activations import Activation, activation
from vixformer.nn.block import Block, NormPlace
from vixformer.nn.mlp import MLP
from vixformer.nn.norms import EPS, NormName
from vixformer.nn.positions import Positions
from vixformer.nn.stems import Stem
from vixformer.ops import Grid
from vixformer.registry import later


@dataclass(frozen=True)
class BlockOptions:
    projection: Attention.Config
    mlp_dim: int
    act: str
    drop: float
    norm: NormName
    norm_eps: float
    norm_place: NormPlace = "pre"
    mlp_norm: bool = False


def make_blocks(layers: Iterable[tuple[Layer, float]], shape: Shape, options: BlockOptions) -> nn.ModuleList:
    """One block for each attention of a layout and its rate of stochastic depth."""
    return nn.ModuleList(
        Block(
            shape.dim,
            build_attention(layer, shape, options.projection),
            MLP(shape.dim, options.mlp_dim, options.act, options.drop, options.mlp_norm),
            rate,
            options.norm_place,
            options.norm,
            options.norm_eps,
        )
        for layer, rate in layers
    )


@dataclass(frozen=True, kw_only=True)
class StagedConfig(BackboneConfig):
    mlp_ratio: PositiveFloat = 2.0
    """Width of every MLP, relative to the width of its tokens."""
    mlp_dim: PositiveInt | None = None
    """Width of every MLP. Left out: mlp_ratio times the width of its tokens."""
    proj: Annotated[str, Attention] = "linear"
    """How tokens become queries, keys and values."""
    qkv_bias: bool = True
    """Biases for queries, keys and values."""
    out_bias: bool = True
    """A bias for the output of attention."""
    norm: NormName = "layer"
    """Normalization in every block."""
    norm_eps: PositiveFloat = EPS
    """Constant that layer norms add to the variance."""
    act: Annotated[str, Activation] = "gelu"
    """Activation of the MLPs."""
    drop_rate: Rate = 0.0
    """Dropout rate."""
    proj_drop_rate: Rate | None = later(None)
    """Dropout rate after attention. Left out: drop_rate. If given, drop_rate is the rate of the MLP alone."""
    drop_path_rate: Rate = 0.0
    """Rate of stochastic depth: whole branches that are dropped in training, more of them in deeper blocks."""
    dropout = ("drop_rate", "proj_drop_rate", "drop_path_rate")

    def __post_init__(self) -> None:
        super().__post_init__()
        activation(self.act)

    def check_stages(self, first: str, *others: str) -> None:
        stages = len(getattr(self, first))
        for name in others:
            if (count := len(getattr(self, name))) != stages:
                raise ValueError(f"{first} has {stages} stages and {name} {count}: give each one number a stage")

    def projection(self, word: str, **special: object) -> Attention.Config:
        drop = self.drop_rate if self.proj_drop_rate is None else self.proj_drop_rate
        return projection(word, qkv_bias=self.qkv_bias, out_bias=self.out_bias, drop=drop, **special)

    def block_options(
        self,
        dim: int,
        special: Given = MappingProxyType({}),
        norm_place: NormPlace = "pre",
        mlp_norm: bool = False,
    ) -> BlockOptions:
        """For tokens of this width; `special` are options of one projection alone."""
        return BlockOptions(
            projection=self.projection(self.proj, **special),
            mlp_dim=self.mlp_dim or max(1, round(self.mlp_ratio * dim)),
            act=self.act,
            drop=self.drop_rate,
            norm=self.norm,
            norm_eps=self.norm_eps,
            norm_place=norm_place,
            mlp_norm=mlp_norm,
        )


def check_heads(name: str, dim: int, heads: int, head_dim: int | None) -> None:
    if head_dim is None and heads > 0 and dim % heads:  # what is no number of heads is refused by its type
        raise ValueError(
            f"num_heads must divide {name}: {heads} does not divide {dim}; choose another, or give head_dim"
        )


def one_grid(stem: Stem) -> Stem:
    """For backbones that do something to the grid."""
    if stem.repeats > 1:
        raise ValueError(
            f'stem="{stem.name}" puts several tokens on each place, which this model cannot do: use it with vit, or'
            " another stem"
        )
    return stem


class Staged(Backbone):
    """A model has `stages`, each a list of blocks, says how tokens `start`, and what happens `between` stages."""

    pos: Positions
    repeats = 1
    """How often the grid is listed, see `Stem`."""
    stages: Sequence[nn.ModuleList] | nn.ModuleList

    def layers(self, drop_path_rate: float, *depths: int) -> Iterator[tuple[Layer, float]]:
        """The attention of every block of stages of these depths, and its rate of stochastic depth, which grows
        linearly to this one."""
        layers = self.layout.expand(*depths)
        last = max(1, len(layers) - 1)
        return zip(layers, [drop_path_rate * i / last for i in range(len(layers))], strict=True)

    def start(self, x: Tensor) -> tuple[Tensor, Grid]:
        """Images -> tokens with their positions, and the grid they lie on."""
        raise NotImplementedError

    def between(self, stage: int, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        """Tokens that come from the stage before -> tokens for this one, 1 or later."""
        raise NotImplementedError

    def run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        self.check_images(x)
        x, grid = self.start(x)
        for i, stage in enumerate(self.stages):
            if i:
                x, grid = self.between(i, x, grid)
            rotation = self.pos.rotation(x, grid, self.repeats)
            assert isinstance(stage, nn.ModuleList)
            for block in stage:
                # repeated grids are no image to a mechanism that looks at neighbors
                x = block(x, grid=grid if self.repeats == 1 else None, rotation=rotation)
                yield x, grid
