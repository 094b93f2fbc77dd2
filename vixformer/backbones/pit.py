"""Pooling-based Vision Transformer (arXiv:2103.16302): between stages a depthwise convolution halves the grid and
widens the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.backbones.backbone import Sizes
from vixformer.backbones.staged import Staged, StagedConfig, make_blocks, one_grid
from vixformer.jsonfile import Values
from vixformer.nn.dense import Linear
from vixformer.nn.norms import make_norm
from vixformer.nn.pooling import ClassToken, class_token, with_class_token
from vixformer.nn.positions import START, Positions
from vixformer.nn.stems import Stem, StemOptions, after_window
from vixformer.ops import Grid
from vixformer.registry import later


class PiT(Staged, name="pit"):
    @dataclass(frozen=True, kw_only=True)
    class Config(StagedConfig):
        patch_size: PositiveInt = 4
        """Side of a patch, in pixels."""
        patch_stride: PositiveInt | None = None
        """Pixels from one patch to the next. Left out: patch_size. Patches overlap if it is smaller."""
        stem: Annotated[str, Stem] = "linear"
        """How the image becomes tokens."""
        embed_dim: PositiveInt = 128
        """Width of the first stage; every stage doubles it."""
        depths: Sizes = (2, 2)
        """Number of blocks in every stage."""
        num_heads: Sizes = (4, 8)
        """Number of attention heads in every stage."""
        head_dim: PositiveInt = 32
        """Width of a head."""
        pointwise: bool = False
        """A 1 x 1 convolution after the pooling one ("Vision Xformers")."""
        pos: Annotated[str, Positions] = "learned"
        """Positions that tokens get."""
        pos_std: PositiveFloat = later(START)
        """Initial standard deviation of learned positions."""

        @property
        def stage_depths(self) -> tuple[int, ...]:
            return self.depths

        def __post_init__(self) -> None:
            super().__post_init__()
            self.check_stages("depths", "num_heads")

    config: Config

    variants: ClassVar[dict[str, Values]] = {
        f"pit-{size}": dict(
            img_size=224, num_classes=1000, patch_size=patch, patch_stride=stride, embed_dim=width * heads,
            head_dim=width, depths=depths,
            num_heads=(heads, 2 * heads, 4 * heads), mlp_ratio=4.0,
        )
        for size, width, heads, depths, patch, stride in (
            ("tiny", 32, 2, (2, 6, 4), 16, 8),
            ("xs", 48, 2, (2, 6, 4), 16, 8),
            ("small", 48, 3, (2, 6, 4), 16, 8),
            ("base", 64, 4, (3, 6, 4), 14, 7),
        )
    }  # fmt: skip

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config = self.config
        dim = config.embed_dim
        self.patch_embed: Stem = self._make_stem()
        self.grid = grid = self.patch_embed.grid(*self.img_size)
        self.cls_token = class_token(dim)
        self.pos = Positions.member(config.pos)(dim, config.head_dim, grid, 1).spread(config.pos_std)
        layers = self.layers(config.drop_path_rate, *config.depths)
        self.stages, self.pools = nn.ModuleList(), nn.ModuleList()
        for i, (depth, heads) in enumerate(zip(config.depths, config.num_heads, strict=True)):
            if i:
                self.pools.append(TokenPool(dim, 2 * dim, config.pointwise))
                dim, grid = 2 * dim, (after_window(grid[0], [POOL]), after_window(grid[1], [POOL]))
            shape = Shape(dim, heads, config.head_dim, 1 + grid[0] * grid[1], grid)
            self.stages.append(make_blocks(islice(layers, depth), shape, config.block_options(dim)))
        self.norm = make_norm(config.norm, dim, config.norm_eps)
        self.pool = ClassToken(dim)
        self.head = self.make_head(self.num_classes)

    def _make_stem(self) -> Stem:
        config = self.config
        options = StemOptions(self.in_chans, config.embed_dim, config.patch_size)
        if config.patch_stride in (None, config.patch_size):
            return one_grid(Stem.member(config.stem)(options))
        if config.stem != "linear":
            raise ValueError(f'patch_stride goes with stem="linear": leave it out for stem="{config.stem}"')
        return OverlappingPatches(options, config.patch_stride)

    def start(self, x: Tensor) -> tuple[Tensor, Grid]:
        grid = self.patch_embed.grid(*x.shape[-2:])
        return self.pos.add(with_class_token(self.patch_embed(x), self.cls_token), grid), grid

    def between(self, stage: int, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        return self.pools[stage - 1](x, grid)


POOL = (3, 2, 1)  # kernel, stride, padding


class TokenPool(nn.Module):
    """The grid to half its sides by a convolution, every channel by itself; the class token through a linear layer."""

    def __init__(self, dim: int, wider: int, pointwise: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(dim, wider, *POOL, groups=dim)
        self.pointwise = nn.Conv2d(wider, wider, 1) if pointwise else nn.Identity()
        self.fc = Linear(dim, wider)

    def forward(self, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        places = self.pointwise(self.conv(x[:, 1:].transpose(1, 2).unflatten(-1, grid)))
        return torch.cat([self.fc(x[:, :1]), places.flatten(2).transpose(1, 2)], 1), (
            places.shape[-2],
            places.shape[-1],
        )


class OverlappingPatches(Stem):
    def __init__(self, options: StemOptions, stride: int) -> None:
        super().__init__(options)
        self.proj = nn.Conv2d(options.in_chans, options.dim, options.patch_size, stride)

    def grid(self, height: int, width: int) -> Grid:
        window = [(self.options.patch_size, self.proj.stride[0], 0)]
        return after_window(height, window), after_window(width, window)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images).flatten(2).transpose(1, 2)
