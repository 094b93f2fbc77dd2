"""Pooling-based Vision Transformer (arXiv:2103.16302): between stages a depthwise convolution halves the grid and widens the tokens."""
# B images  N tokens  D width

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Grid, Shape
from vixformer.attention.projection import ProjectionOptions
from vixformer.backbones.base import Backbone, BackboneConfig, Rate
from vixformer.blocks.block import BlockOptions, make_blocks
from vixformer.blocks.mlp import activation
from vixformer.blocks.norms import NormName, make_norm
from vixformer.blocks.positions import Positions
from vixformer.blocks.stems import Stem, StemOptions, after_window


class PiT(Backbone, name="pit"):
    @dataclass(frozen=True, kw_only=True)
    class Config(BackboneConfig):
        patch_size: PositiveInt = 4
        patch_stride: PositiveInt | None = None
        """Pixels from one patch to the next; left out, patch_size. Smaller, and patches overlap."""
        stem: str = "linear"
        embed_dim: PositiveInt = 128
        """Width of the first stage; every stage doubles it."""
        depths: tuple[PositiveInt, ...] = (2, 2)
        num_heads: tuple[PositiveInt, ...] = (4, 8)
        """Of every stage."""
        head_dim: PositiveInt = 32
        mlp_ratio: PositiveFloat = 2.0
        mlp_dim: PositiveInt | None = None
        """Width of every MLP; left out, mlp_ratio times the width of its stage."""
        pointwise: bool = False
        """A 1 x 1 convolution after the pooling one ("Vision Xformers")."""
        proj: str = "linear"
        qkv_bias: bool = True
        out_bias: bool = True
        norm: NormName = "layer"
        pos: str = "learned"
        act: str = "gelu"
        drop_rate: Rate = 0.0
        drop_path_rate: Rate = 0.0

        def __post_init__(self) -> None:
            activation(self.act)
            if len(self.depths) != len(self.num_heads):
                raise ValueError(f"depths has {len(self.depths)} stages and num_heads {len(self.num_heads)}: give each one number a stage")

    variants: ClassVar[dict[str, dict[str, Any]]] = {
        f"pit-{size}": dict(
            img_size=224, num_classes=1000, patch_size=patch, patch_stride=stride, embed_dim=width * heads, head_dim=width, depths=depths,
            num_heads=(heads, 2 * heads, 4 * heads), mlp_ratio=4.0,
        )
        for size, width, heads, depths, patch, stride in (
            ("tiny", 32, 2, (2, 6, 4), 16, 8),
            ("xs", 48, 2, (2, 6, 4), 16, 8),
            ("small", 48, 3, (2, 6, 4), 16, 8),
            ("base", 64, 4, (3, 6, 4), 14, 7),
        )
    }  # fmt: skip

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        config: Any = self.config
        dim = config.embed_dim
        self.patch_embed: Stem = self._make_stem()
        self.grid = grid = self.patch_embed.grid(*self.img_size)
        self.cls_token = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, dim), std=0.02))
        self.pos: Positions = Positions.member(config.pos)(dim, config.head_dim, grid, 1)
        layers = iter(self.layout.expand(*config.depths))
        rates = iter(torch.linspace(0, config.drop_path_rate, sum(config.depths)).tolist())
        self.stages, self.pools = nn.ModuleList(), nn.ModuleList()
        for i, (depth, heads) in enumerate(zip(config.depths, config.num_heads, strict=True)):
            if i:
                self.pools.append(TokenPool(dim, 2 * dim, config.pointwise))
                dim, grid = 2 * dim, (after_window(grid[0], [POOL]), after_window(grid[1], [POOL]))
            options = BlockOptions(
                mlp_dim=config.mlp_dim or max(1, round(config.mlp_ratio * dim)),
                act=config.act,
                drop=config.drop_rate,
                norm=config.norm,
                proj=config.proj,
                projection=ProjectionOptions(config.qkv_bias, config.out_bias, config.drop_rate),
            )
            shape = Shape(dim, heads, config.head_dim, 1 + grid[0] * grid[1])
            self.stages.append(make_blocks([next(layers) for _ in range(depth)], shape, options, [next(rates) for _ in range(depth)]))
        self.out_dim = dim
        self.norm = make_norm(config.norm, dim)
        self.head = self.make_head(config.num_classes)

    def _make_stem(self) -> Stem:
        config: Any = self.config
        options = StemOptions(config.in_chans, config.embed_dim, config.patch_size)
        if config.patch_stride in (None, config.patch_size):
            return Stem.member(config.stem)(options)
        if config.stem != "linear":
            raise ValueError(f'patch_stride goes with stem="linear": leave it out for stem="{config.stem}"')
        return OverlappingPatches(options, config.patch_stride)

    def make_head(self, num_classes: int) -> nn.Module:
        return nn.Linear(self.out_dim, num_classes) if num_classes else nn.Identity()

    def _run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        """Tokens after each block."""
        self.check_images(x)
        grid = self.patch_embed.grid(*x.shape[-2:])
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), self.patch_embed(x)], 1)
        added = self.pos.added(grid, 1, x.device)
        x = x if added is None else x + added.to(x.dtype)
        for i, stage in enumerate(self.stages):
            if i:
                x, grid = self.pools[i - 1](x, grid)
            rotation = self.pos.rotation(grid, 1, x.device)
            for block in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = block(x, grid=grid, rotation=rotation)
                yield x, grid

    def forward_features(self, x: Tensor) -> Tensor:
        for x, _ in self._run(x):  # noqa: B007, B020
            pass
        return self.norm(x)

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        return [tokens[:, 1:].transpose(1, 2).unflatten(-1, grid) for tokens, grid in self._run(x)]

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(x[:, 0])


POOL = (3, 2, 1)  # kernel, stride, padding


class TokenPool(nn.Module):
    """The grid to half its sides by a convolution, every channel by itself; the class token through a linear layer."""

    def __init__(self, dim: int, wider: int, pointwise: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(dim, wider, *POOL, groups=dim)
        self.pointwise = nn.Conv2d(wider, wider, 1) if pointwise else nn.Identity()
        self.fc = nn.Linear(dim, wider)

    def forward(self, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        places = self.pointwise(self.conv(x[:, 1:].transpose(1, 2).unflatten(-1, grid)))
        return torch.cat([self.fc(x[:, :1]), places.flatten(2).transpose(1, 2)], 1), (places.shape[-2], places.shape[-1])


class OverlappingPatches(Stem):
    def __init__(self, options: StemOptions, stride: int) -> None:
        super().__init__(options)
        self.proj = nn.Conv2d(options.in_chans, options.dim, options.patch_size, stride)

    def grid(self, height: int, width: int) -> Grid:
        window = [(self.options.patch_size, self.proj.stride[0], 0)]
        return after_window(height, window), after_window(width, window)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images).flatten(2).transpose(1, 2)
