"""A plain convolutional network, the baseline without any attention: pairs of convolutions, each pair halving the image."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from pydantic import PositiveInt
from torch import Tensor, nn

from vixformer.backbones.base import Backbone, BackboneConfig
from vixformer.blocks.mlp import activation


class CNN(Backbone, name="cnn"):
    @dataclass(frozen=True, kw_only=True)
    class Config(BackboneConfig):
        attention: Literal["none"] = "none"
        """There is none to choose."""
        conv_dims: tuple[PositiveInt, ...] = (64, 128, 256)
        """Channels of each pair of convolutions."""
        act: str = "relu"

        def __post_init__(self) -> None:
            activation(self.act)

    def __init__(self, given: Config) -> None:
        super().__init__(given)
        config: Any = self.config
        widths = (config.in_chans, *config.conv_dims)
        if min(self.img_size) < 2 ** len(config.conv_dims):
            raise ValueError(
                f"an image of {self.img_size[0]} x {self.img_size[1]} cannot be halved {len(config.conv_dims)} times: use a larger one"
            )
        self.stages = nn.ModuleList(
            nn.Sequential(*_conv(before, after, config.act), *_conv(after, after, config.act), nn.MaxPool2d(2))
            for before, after in pairwise(widths)
        )
        self.head = self.make_head(config.num_classes)

    def make_head(self, num_classes: int) -> nn.Module:
        return nn.Linear(self.config.conv_dims[-1], num_classes) if num_classes else nn.Identity()

    def forward_maps(self, x: Tensor) -> list[Tensor]:
        self.check_images(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps

    def forward_features(self, x: Tensor) -> Tensor:
        return self.forward_maps(x)[-1].flatten(2).transpose(1, 2)

    def forward_head(self, x: Tensor) -> Tensor:
        return self.head(x.mean(1))


def _conv(before: int, after: int, act: str) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), activation(act)]
