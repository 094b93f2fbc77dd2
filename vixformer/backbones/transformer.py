"""What ViT and CCT share: a stem makes tokens, one stage of blocks lets them attend, a pool makes one vector, a head
classifies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.backbones.backbone import Rate
from vixformer.backbones.staged import Staged, StagedConfig, check_heads, make_blocks
from vixformer.nn.block import NormPlace
from vixformer.nn.dropout import Dropout
from vixformer.nn.heads import make_head
from vixformer.nn.norms import make_norm
from vixformer.nn.pooling import Pooling, class_token, with_class_token
from vixformer.nn.positions import START, Positions
from vixformer.nn.stems import Stem
from vixformer.ops import Grid
from vixformer.registry import later


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(StagedConfig):
    embed_dim: PositiveInt = 128
    """Width of the tokens."""
    depth: PositiveInt = 6
    """Number of blocks."""
    num_heads: PositiveInt = 4
    """Number of attention heads."""
    head_dim: PositiveInt | None = None
    """Width of a head. Left out: embed_dim / num_heads."""
    pos: Annotated[str, Positions] = "learned"
    """Positions that tokens get."""
    pool: Annotated[str, Pooling] = "cls"
    """How the tokens become one vector for the classifier."""
    head: Literal["linear", "mlp"] = "linear"
    """Classifier."""
    pos_std: PositiveFloat = later(START)
    """Initial standard deviation of learned positions."""
    norm_place: NormPlace = "pre"
    """Place of the norms in a block: before its branches, after them, or between them."""
    head_norm: bool | None = later(None)
    """A norm before the classifier. Left out: yes, unless norm_place="post"."""
    pos_drop_rate: Rate = 0.0
    """Dropout after the positions are added."""
    pool_drop_rate: Rate = later(0.0)
    """Dropout rate on the pooled vector, before the classifier."""
    head_drop_rate: Rate = 0.0
    """Dropout rate after each hidden layer of head="mlp"."""
    dropout = (*StagedConfig.dropout, "pos_drop_rate", "pool_drop_rate", "head_drop_rate")

    @property
    def stage_depths(self) -> tuple[int, ...]:
        return (self.depth,)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads("embed_dim", self.embed_dim, self.num_heads, self.head_dim)


class Transformer(Staged):
    config: TransformerConfig

    def __init__(self, given: TransformerConfig) -> None:
        super().__init__(given)
        config = self.config
        dim = config.embed_dim
        head_dim = config.head_dim or dim // config.num_heads
        self.patch_embed: Stem = self.make_stem()
        self.repeats = self.patch_embed.repeats
        self.grid: Grid = self.patch_embed.grid(*self.img_size)
        pool = Pooling.member(config.pool)
        self.num_tokens: int = pool.prefix + self.repeats * self.grid[0] * self.grid[1]

        self.cls_token = class_token(dim) if pool.prefix else None
        self.pos = Positions.member(config.pos)(dim, head_dim, self.grid, pool.prefix).spread(config.pos_std)
        self.pos_drop = Dropout(config.pos_drop_rate)
        shape = Shape(dim, config.num_heads, head_dim, self.num_tokens, self.grid if self.repeats == 1 else None)
        layers = self.layers(config.drop_path_rate, config.depth)
        self.blocks = make_blocks(layers, shape, config.block_options(dim, norm_place=config.norm_place))
        normed = config.norm_place != "post" if config.head_norm is None else config.head_norm
        self.norm = make_norm(config.norm, dim, config.norm_eps) if normed else nn.Identity()
        self.pool = pool(dim, self.num_tokens)
        self.pool_drop = Dropout(config.pool_drop_rate)
        self.head = self.make_head(self.num_classes)

    @property
    def stages(self) -> list[nn.ModuleList]:
        return [self.blocks]

    def make_stem(self) -> Stem:
        raise NotImplementedError

    def make_head(self, num_classes: int) -> nn.Module:
        return make_head(self.config.head, self.pool.out_dim, num_classes, self.config.act, self.config.head_drop_rate)

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(self.pool_drop(self.pool(x)))

    def start(self, x: Tensor) -> tuple[Tensor, Grid]:
        grid = self.patch_embed.grid(*x.shape[-2:])
        tokens = with_class_token(self.patch_embed(x), self.cls_token)
        return self.pos_drop(self.pos.add(tokens, grid, self.repeats)), grid

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        if self.repeats > 1:
            raise ValueError(
                f'stem="{self.patch_embed.name}" puts several tokens on each place, so there is no map: use another'
                " stem"
            )
        return super().forward_maps(x)
