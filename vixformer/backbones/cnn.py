"""Convolutional networks, the baselines without any attention: pairs of convolutions, each pair halving the image, or a
`stem` alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import PositiveInt
from torch import Tensor, nn

from vixformer.backbones.backbone import Backbone, BackboneConfig, Sizes
from vixformer.backbones.staged import one_grid
from vixformer.nn.activations import Activation, activation
from vixformer.nn.pooling import Mean
from vixformer.nn.stems import Stem, StemOptions
from vixformer.ops import Grid
from vixformer.registry import later


class CNN(Backbone, name="cnn"):
    @dataclass(frozen=True, kw_only=True)
    class Config(BackboneConfig):
        attention: Literal["none"] = "none"
        """This model has no attention to choose."""
        conv_dims: Sizes = (64, 128, 256)
        """Channels of each pair of convolutions."""
        act: Annotated[str, Activation] = "relu"
        """Activation of the MLPs."""
        stem: Annotated[str, Stem] | None = later(None)
        """The stem of a ViT, such as resnet, instead of the pairs of convolutions: a baseline for that ViT."""
        embed_dim: PositiveInt = later(128)
        """Channels of the stem's last convolution."""
        patch_size: PositiveInt = later(4)
        """Product of the strides of the stem."""

        def __post_init__(self) -> None:
            super().__post_init__()
            activation(self.act)

    config: Config

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config = self.config
        if config.stem is None:
            widths = (self.in_chans, *config.conv_dims)
            self._check_size(*self.img_size)
            self.stages = nn.ModuleList(
                nn.Sequential(*_conv(before, after, config.act), *_conv(after, after, config.act), nn.MaxPool2d(2))
                for before, after in pairwise(widths)
            )
        else:
            widths = (config.embed_dim,)
            self.stem = one_grid(
                Stem.member(config.stem)(StemOptions(self.in_chans, config.embed_dim, config.patch_size))
            )
            self.stem.grid(*self.img_size)
            self.stages = nn.ModuleList()
        self.norm = nn.Identity()
        self.pool = Mean(widths[-1])
        self.head = self.make_head(self.num_classes)

    def _check_size(self, height: int, width: int) -> None:
        halvings = len(self.config.conv_dims)
        if min(height, width) < 2**halvings:
            raise ValueError(f"an image of {height} x {width} cannot be halved {halvings} times: use a larger one")

    def run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        self.check_images(x)
        if self.config.stem is not None:
            yield self.stem(x), self.stem.grid(*x.shape[-2:])
            return
        self._check_size(*x.shape[-2:])
        for stage in self.stages:
            x = stage(x)
            yield x.flatten(2).transpose(1, 2), (x.shape[-2], x.shape[-1])


def _conv(before: int, after: int, act: str) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), activation(act)]
