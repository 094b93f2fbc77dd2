"""Compact Convolutional Transformer (arXiv:2104.05704): convolutions and pooling make the tokens, and all of them
answer, weighed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from vixformer.backbones.transformer import Transformer, TransformerConfig
from vixformer.jsonfile import Values
from vixformer.nn.block import NormPlace
from vixformer.nn.pooling import Pooling
from vixformer.nn.stems import Stem, StemOptions, after_window
from vixformer.ops import Grid


class CCT(Transformer, name="cct"):
    @dataclass(frozen=True, kw_only=True)
    class Config(TransformerConfig):
        conv_layers: PositiveInt = 1
        """Number of layers of the stem: each is a convolution without bias, ReLU and a maximum over a window."""
        conv_dim: PositiveInt = 64
        """Channels of all convolutions but the last, which has embed_dim."""
        conv_kernel: PositiveInt = 3
        """Kernel size of the convolutions of the stem."""
        conv_stride: PositiveInt | tuple[PositiveInt, ...] = 1
        """Stride of the convolutions: one number for all, or one for each."""
        pool_kernel: PositiveInt = 3
        """Window of the maximum in the stem."""
        pool_stride: PositiveInt = 2
        """Stride of the maximum in the stem."""
        pool_padding: NonNegativeInt = 1
        """Padding of the maximum in the stem."""
        pool: Annotated[str, Pooling] = "seq"
        qkv_bias: bool = False
        norm_place: NormPlace = "between"

        def __post_init__(self) -> None:
            super().__post_init__()
            if 2 * self.pool_padding > self.pool_kernel:
                raise ValueError(
                    f"pool_padding must be at most half of pool_kernel, {self.pool_kernel}, not {self.pool_padding}"
                )
            if not isinstance(self.conv_stride, int) and len(self.conv_stride) != self.conv_layers:
                have = f"conv_stride has {len(self.conv_stride)} numbers and there are {self.conv_layers} conv_layers"
                raise ValueError(f"{have}: give one number, or one a layer")

    config: Config

    variants: ClassVar[dict[str, Values]] = {
        "cct-2-3x2": dict(embed_dim=128, depth=2, num_heads=2, mlp_ratio=1.0, conv_layers=2),
        "cct-6-3x1": dict(embed_dim=256, depth=6, num_heads=4),
        "cct-7-3x1": dict(embed_dim=256, depth=7, num_heads=4),
        "cct-14-7x2": dict(
            img_size=224,
            num_classes=1000,
            embed_dim=384,
            depth=14,
            num_heads=6,
            mlp_ratio=3.0,
            conv_layers=2,
            conv_kernel=7,
            conv_stride=2,
        ),
    }

    def make_stem(self) -> Stem:
        return ConvTokenizer(self.config, self.in_chans)


class ConvTokenizer(Stem):
    def __init__(self, config: CCT.Config, in_chans: int) -> None:
        super().__init__(StemOptions(in_chans, config.embed_dim, 1))
        widths = [in_chans, *[config.conv_dim] * (config.conv_layers - 1), config.embed_dim]
        strides = (
            [config.conv_stride] * config.conv_layers if isinstance(config.conv_stride, int) else config.conv_stride
        )
        pooling = (config.pool_kernel, config.pool_stride, config.pool_padding)
        self.windows: list[tuple[int, int, int]] = []
        layers: list[nn.Module] = []
        for before, after, stride in zip(widths, widths[1:], strides, strict=False):
            convolution = (config.conv_kernel, stride, config.conv_kernel // 2)
            self.windows += [convolution, pooling]
            layers += [nn.Conv2d(before, after, *convolution, bias=False), nn.ReLU(), nn.MaxPool2d(*pooling)]
        self.layers = nn.Sequential(*layers)

    def grid(self, height: int, width: int) -> Grid:
        return after_window(height, self.windows), after_window(width, self.windows)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten(2).transpose(1, 2)
