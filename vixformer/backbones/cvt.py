"""Convolutional vision Transformer (arXiv:2103.15808): every stage embeds tokens by a convolution, q, k and v come from convolutions too.

It knows places from its convolutions and has no positions.
"""
# B images  N tokens  D width

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Grid, Shape
from vixformer.attention.projection import ProjectionOptions
from vixformer.backbones.base import Backbone, BackboneConfig, Rate
from vixformer.blocks.block import BlockOptions, make_blocks
from vixformer.blocks.mlp import activation
from vixformer.blocks.norms import NormName, make_norm
from vixformer.blocks.stems import after_window


class CvT(Backbone, name="cvt"):
    @dataclass(frozen=True, kw_only=True)
    class Config(BackboneConfig):
        dims: tuple[PositiveInt, ...] = (64, 128, 256)
        """Width of every stage."""
        depths: tuple[PositiveInt, ...] = (1, 1, 2)
        num_heads: tuple[PositiveInt, ...] = (1, 2, 4)
        head_dim: PositiveInt | None = None
        """Width of a head in every stage; left out, width / heads."""
        kernels: tuple[PositiveInt, ...] = (3, 3, 3)
        """Of the convolutions that embed."""
        strides: tuple[PositiveInt, ...] = (2, 2, 1)
        mlp_ratio: PositiveFloat = 2.0
        mlp_dim: PositiveInt | None = None
        """Width of every MLP; left out, mlp_ratio times the width of its stage."""
        proj: str = "conv"
        kv_stride: PositiveInt = 1
        """Of the convolutions that make keys and values: fewer of them than queries."""
        shared_kv: bool = False
        """Whether keys and values share their convolution."""
        qkv_bias: bool = True
        out_bias: bool = True
        norm: NormName = "layer"
        head_norm: bool = True
        """Whether there is a norm before the head."""
        pool: Literal["mean", "cls"] = "mean"
        """cls: a class token joins in the last stage."""
        act: str = "gelu"
        drop_rate: Rate = 0.0
        drop_path_rate: Rate = 0.0

        def __post_init__(self) -> None:
            activation(self.act)
            for name in ("depths", "num_heads", "kernels", "strides"):
                if (count := len(getattr(self, name))) != len(self.dims):
                    raise ValueError(f"dims has {len(self.dims)} stages and {name} {count}: give each one number a stage")
            for dim, heads in zip(self.dims, self.num_heads, strict=True):
                if self.head_dim is None and dim % heads:
                    raise ValueError(f"num_heads must divide dims: {heads} does not divide {dim}; choose another, or give head_dim")
            if self.proj != "conv" and (self.kv_stride > 1 or self.shared_kv):
                raise ValueError(f'kv_stride and shared_kv go with proj="conv": leave them out for proj="{self.proj}"')

    variants: ClassVar[dict[str, dict[str, Any]]] = {
        name: dict(
            img_size=224, num_classes=1000, dims=dims, depths=depths, num_heads=heads, kernels=(7, 3, 3), strides=(4, 2, 2), kv_stride=2,
            mlp_ratio=4.0, pool="cls",
        )
        for name, dims, depths, heads in (
            ("cvt-13", (64, 192, 384), (1, 2, 10), (1, 3, 6)),
            ("cvt-21", (64, 192, 384), (1, 4, 16), (1, 3, 6)),
            ("cvt-w24", (192, 768, 1024), (2, 2, 20), (3, 12, 16)),
        )
    }  # fmt: skip

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config: Any = self.config
        layers = iter(self.layout.expand(*config.depths))
        rates = iter(torch.linspace(0, config.drop_path_rate, sum(config.depths)).tolist())
        self.embeds, self.norms, self.stages = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        before, grid = config.in_chans, self.img_size
        last = len(config.dims) - 1
        for i, (dim, depth, heads, kernel, stride) in enumerate(
            zip(config.dims, config.depths, config.num_heads, config.kernels, config.strides, strict=True)
        ):
            self.embeds.append(nn.Conv2d(before, dim, kernel, stride, kernel // 2))
            self.norms.append(make_norm(config.norm, dim))
            window = [(kernel, stride, kernel // 2)]
            before, grid = dim, (after_window(grid[0], window), after_window(grid[1], window))
            prefix = int(i == last and config.pool == "cls")
            options = BlockOptions(
                mlp_dim=config.mlp_dim or max(1, round(config.mlp_ratio * dim)),
                act=config.act,
                drop=config.drop_rate,
                norm=config.norm,
                proj=config.proj,
                projection=ProjectionOptions(config.qkv_bias, config.out_bias, config.drop_rate, config.kv_stride, config.shared_kv),
            )
            shape = Shape(dim, heads, config.head_dim or dim // heads, prefix + grid[0] * grid[1])
            self.stages.append(make_blocks([next(layers) for _ in range(depth)], shape, options, [next(rates) for _ in range(depth)]))
        self.cls_token = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, before), std=0.02)) if config.pool == "cls" else None
        self.norm = make_norm(config.norm, before) if config.head_norm else nn.Identity()
        self.head = self.make_head(config.num_classes)

    def make_head(self, num_classes: int) -> nn.Module:
        return nn.Linear(self.config.dims[-1], num_classes) if num_classes else nn.Identity()

    def _run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        """Tokens after each block."""
        self.check_images(x)
        grid = (x.shape[-2], x.shape[-1])
        for i, (embed, norm, stage) in enumerate(zip(self.embeds, self.norms, self.stages, strict=True)):
            image = x if i == 0 else x.transpose(1, 2).unflatten(-1, grid)
            for side in grid:
                after_window(side, [(embed.kernel_size[0], embed.stride[0], embed.padding[0])])  # pyright: ignore
            image = embed(image)
            grid = (image.shape[-2], image.shape[-1])
            x = norm(image.flatten(2).transpose(1, 2))
            if self.cls_token is not None and i == len(self.stages) - 1:
                x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
            for block in stage:  # pyright: ignore[reportGeneralTypeIssues]
                x = block(x, grid=grid)
                yield x, grid

    def forward_features(self, x: Tensor) -> Tensor:
        for x, _ in self._run(x):  # noqa: B007, B020
            pass
        return self.norm(x)

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        return [tokens[:, tokens.shape[1] - g[0] * g[1] :].transpose(1, 2).unflatten(-1, g) for tokens, g in self._run(x)]

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(x.mean(1) if self.cls_token is None else x[:, 0])
