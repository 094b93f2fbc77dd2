"""Batches for a model: train images shuffled and augmented, the others in order and as they are."""
# B images

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vixformer.data.augment import crop_and_flip, cut_out, normalise, resize, rotate
from vixformer.data.dataset import Images


@dataclass(frozen=True)
class Augmentation:
    crop: int = 0
    flip: bool = False
    rotate: float = 0.0
    cutout: int = 0
    interpolation: str = "bilinear"


@dataclass(frozen=True)
class Loader:
    """Iterate over `epoch(generator)` to train, over `plain()` to evaluate. Everything random comes from the generator."""

    images: Images
    batch_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: tuple[int, int]
    device: torch.device
    augmentation: Augmentation = Augmentation()

    def __len__(self) -> int:
        return -(-len(self.images) // self.batch_size)

    def order(self, generator: torch.Generator) -> Tensor:
        return torch.randperm(len(self.images), generator=generator)

    def batches(self, order: Tensor, generator: torch.Generator, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Augmented batches of the images in `order`, from batch `start` on."""
        a = self.augmentation
        for index in order.split(self.batch_size)[start:]:
            pixels, labels = self._take(index)
            pixels = rotate(crop_and_flip(pixels, a.crop, a.flip, generator), a.rotate, generator, a.interpolation)
            yield self._ready(cut_out(pixels, a.cutout, generator)), labels

    def plain(self) -> Iterator[tuple[Tensor, Tensor]]:
        for index in torch.arange(len(self.images)).split(self.batch_size):
            pixels, labels = self._take(index)
            yield self._ready(pixels), labels

    def spread(self, most: int) -> Loader:
        """At most this many images, spread over the set: neighbors are often alike."""
        index = torch.linspace(0, len(self.images) - 1, min(most, len(self.images))).long()
        return replace(self, images=self.images.take(index))

    def _ready(self, pixels: Tensor) -> Tensor:
        """What is stored as floats, noise, is normal already."""
        noise = self.images.pixels.is_floating_point()
        return resize(pixels if noise else normalise(pixels, self.mean, self.std), self.size)

    def _take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        pixels = self.images.pixels[self.images.rows[index]]
        return pixels.to(self.device, non_blocking=True), self.images.labels[index].to(self.device, non_blocking=True)


def channel_statistics(images: Images, most: int = 20_000, values: int = 2**26) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel in 0..1, from images spread over the set: limited in number, and in values in all."""
    channels = images.shape[0]
    if images.pixels.is_floating_point():
        return (0.0,) * channels, (1.0,) * channels
    count = max(1, min(most, len(images), values // math.prod(images.shape)))
    total, squares = torch.zeros(2, channels, dtype=torch.float64)
    for index in torch.linspace(0, len(images) - 1, count).long().split(500):
        pixels = images.pixels[images.rows[index]].float()
        total += pixels.sum((0, 2, 3), dtype=torch.float64)
        squares += pixels.square_().sum((0, 2, 3), dtype=torch.float64)
    number = count * images.shape[1] * images.shape[2]
    mean = total / number
    std = (squares / number - mean**2).clamp(min=1e-6).sqrt()
    return tuple((mean / 255).tolist()), tuple((std / 255).tolist())
