"""Convolutional vision Transformer (arXiv:2103.15808): every stage embeds tokens by a convolution, q, k and v come from
convolutions too.

It knows places from its convolutions and has no positions, unless they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.attention.project.projection import Attention
from vixformer.backbones.backbone import Sizes
from vixformer.backbones.staged import Staged, StagedConfig, check_heads, make_blocks
from vixformer.jsonfile import Values
from vixformer.nn.norms import make_norm
from vixformer.nn.pooling import Pooling, class_token, with_class_token
from vixformer.nn.positions import Positions
from vixformer.nn.stems import after_window
from vixformer.ops import Grid


class CvT(Staged, name="cvt"):
    @dataclass(frozen=True, kw_only=True)
    class Config(StagedConfig):
        dims: Sizes = (64, 128, 256)
        """Width of every stage."""
        depths: Sizes = (1, 1, 2)
        """Number of blocks in every stage."""
        num_heads: Sizes = (1, 2, 4)
        """Number of attention heads in every stage."""
        head_dim: PositiveInt | None = None
        """Width of a head in every stage. Left out: width / heads."""
        kernels: Sizes = (3, 3, 3)
        """Kernel sizes of the embedding convolutions."""
        strides: Sizes = (2, 2, 1)
        """Strides of the embedding convolutions."""
        paddings: tuple[NonNegativeInt, ...] | None = None
        """Padding of the embedding convolutions. Left out: half of their kernels."""
        scale: Literal["head", "width"] = "head"
        """Scores are divided by the root of the width of a head, or of all heads, as in the published sizes; for
        proj="conv"."""
        proj: Annotated[str, Attention] = "conv"
        kv_stride: PositiveInt = 1
        """Stride of the convolutions that make keys and values: above 1, there are fewer keys than queries."""
        shared_kv: bool = False
        """One convolution for both keys and values."""
        head_norm: bool = True
        """A norm before the classifier."""
        pool: Literal["mean", "cls"] = "mean"
        """How the tokens become one vector for the classifier; with cls, a class token joins in the last stage."""
        pos: Annotated[str, Positions] = "none"
        """Positions that tokens get. Learned and fixed ones are added in the first stage; rotary ones rotate q and k in
        every stage, and need heads of one width."""

        @property
        def stage_depths(self) -> tuple[int, ...]:
            return self.depths

        def __post_init__(self) -> None:
            super().__post_init__()
            self.check_stages("dims", "depths", "num_heads", "kernels", "strides")
            if self.paddings is not None:
                self.check_stages("dims", "paddings")
            for dim, heads in zip(self.dims, self.num_heads, strict=True):
                check_heads("dims", dim, heads, self.head_dim)
            if self.proj != "conv" and (self.kv_stride > 1 or self.shared_kv or self.scale != "head"):
                raise ValueError(
                    f'kv_stride, shared_kv and scale go with proj="conv": leave them out for proj="{self.proj}"'
                )
            if self.pos.startswith("rope") and self.kv_stride > 1:
                raise ValueError(f'pos="{self.pos}" needs as many keys as queries: use kv_stride=1, or pos="none"')
            if self.pos.startswith("rope") and len(set(self.head_dims())) > 1:
                raise ValueError(
                    f'pos="{self.pos}" needs heads of one width in all stages: give head_dim, or use pos="none"'
                )

        def head_dims(self) -> list[int]:
            return [self.head_dim or dim // heads for dim, heads in zip(self.dims, self.num_heads, strict=True)]

    config: Config

    variants: ClassVar[dict[str, Values]] = {
        name: dict(
            img_size=224, num_classes=1000, dims=dims, depths=depths, num_heads=heads, kernels=(7, 3, 3),
            strides=(4, 2, 2), kv_stride=2,
            paddings=(2, 1, 1), scale="width", mlp_ratio=4.0, pool="cls",
        )
        for name, dims, depths, heads in (
            ("cvt-13", (64, 192, 384), (1, 2, 10), (1, 3, 6)),
            ("cvt-21", (64, 192, 384), (1, 4, 16), (1, 3, 6)),
            ("cvt-w24", (192, 768, 1024), (2, 2, 20), (3, 12, 16)),
        )
    }  # fmt: skip

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config = self.config
        layers = self.layers(config.drop_path_rate, *config.depths)
        pool = Pooling.member(config.pool)
        self.embeds, self.norms, self.stages = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        before, grid = self.in_chans, self.img_size
        last = len(config.dims) - 1
        widths = config.head_dims()
        paddings = config.paddings or [kernel // 2 for kernel in config.kernels]
        for i, (dim, depth, heads, kernel, stride) in enumerate(
            zip(config.dims, config.depths, config.num_heads, config.kernels, config.strides, strict=True)
        ):
            self.embeds.append(nn.Conv2d(before, dim, kernel, stride, paddings[i]))
            self.norms.append(make_norm(config.norm, dim, config.norm_eps))
            window = [(kernel, stride, paddings[i])]
            before, grid = dim, (after_window(grid[0], window), after_window(grid[1], window))
            if i == 0:
                self.pos = Positions.member(config.pos)(dim, widths[0], grid, pool.prefix if last == 0 else 0)
            prefix, places = pool.prefix if i == last else 0, grid[0] * grid[1]
            scale = (widths[i] / dim) ** 0.5 if config.scale == "width" else 1.0
            options = config.block_options(
                dim, dict(kv_stride=config.kv_stride, shared_kv=config.shared_kv, query_scale=scale)
            )
            shape = Shape(dim, heads, widths[i], prefix + places, grid)
            if config.kv_stride > 1:
                keys = [after_window(side, [(3, config.kv_stride, 1)]) for side in grid]
                shape = replace(shape, grid=None, num_keys=prefix + keys[0] * keys[1])
            self.stages.append(make_blocks(islice(layers, depth), shape, options))
        self.cls_token = class_token(before) if pool.prefix else None
        self.norm = make_norm(config.norm, before, config.norm_eps) if config.head_norm else nn.Identity()
        self.pool = pool(before)
        self.head = self.make_head(self.num_classes)

    def start(self, x: Tensor) -> tuple[Tensor, Grid]:
        x, grid = self._embed(0, x)
        return self.pos.add(x, grid), grid

    def between(self, stage: int, x: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        return self._embed(stage, x.transpose(1, 2).unflatten(-1, grid))

    def _embed(self, stage: int, image: Tensor) -> tuple[Tensor, Grid]:
        embed = self.embeds[stage]
        assert isinstance(embed, nn.Conv2d) and not isinstance(embed.padding, str)
        for side in image.shape[-2:]:
            after_window(side, [(embed.kernel_size[0], embed.stride[0], embed.padding[0])])
        image = embed(image)
        x = self.norms[stage](image.flatten(2).transpose(1, 2))
        last = stage == len(self.stages) - 1
        return with_class_token(x, self.cls_token if last else None), (image.shape[-2], image.shape[-1])
