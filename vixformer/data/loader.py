"""Batches for a model: train images shuffled and augmented, the others in order and as they are."""
# B images

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vixformer.data.augment import crop_and_flip, cut_out, normalize, resize, rotate
from vixformer.data.colors import jitter
from vixformer.data.dataset import Images
from vixformer.data.mixing import mix
from vixformer.data.policies import auto_augment, rand_augment
from vixformer.data.shards import Streamed
from vixformer.data.warp import random_erase, random_resized_crop


@dataclass(frozen=True)
class Augmentation:
    """The fields of `Data` of these names say what they are."""

    crop: int = 0
    flip: bool = False
    rotate: float = 0.0
    cutout: int = 0
    interpolation: str = "bilinear"
    crop_scale: tuple[float, float] | None = None
    rand_augment: int = 0
    magnitude: float = 9.0
    auto_augment: str | None = None
    color_jitter: float = 0.0
    erase: float = 0.0
    mixup: float = 0.0
    cutmix: float = 0.0
    repeats: int = 1
    balanced: bool = False

    def pixels(self, pixels: Tensor, generator: torch.Generator) -> Tensor:
        """Of stored pixels."""
        if self.crop_scale is not None:
            pixels = random_resized_crop(pixels, self.crop_scale, generator)
        pixels = crop_and_flip(pixels, self.crop, self.flip, generator)
        if self.auto_augment is not None:
            pixels = auto_augment(pixels, generator, self.interpolation)
        if self.rand_augment:
            pixels = rand_augment(pixels, self.rand_augment, self.magnitude, generator, self.interpolation)
        if self.color_jitter:
            pixels = jitter(pixels, self.color_jitter, generator)
        pixels = rotate(pixels, self.rotate, generator, self.interpolation)
        return cut_out(pixels, self.cutout, generator)

    def batch(self, images: Tensor, labels: Tensor, classes: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Of normalized images; labels become soft where images are mixed."""
        if self.erase:
            images = random_erase(images, self.erase, generator)
        if self.mixup or self.cutmix:
            return mix(images, labels, classes, self.mixup, self.cutmix, generator)
        return images, labels

    def order(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """Which images an epoch takes, in this order."""
        count, repeats = len(labels), self.repeats
        if self.balanced:
            weights = 1 / torch.bincount(labels).clamp(min=1)[labels].double()
            drawn = torch.multinomial(weights, -(-count // repeats), replacement=True, generator=generator)
        else:
            drawn = torch.randperm(count, generator=generator)[: -(-count // repeats)]
        return drawn.repeat_interleave(repeats)[:count]


@dataclass(frozen=True)
class Loader:
    """Iterate over `epoch(generator)` to train, over `plain()` to evaluate. Everything random comes from the
    generator."""

    images: Images
    batch_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    size: tuple[int, int]
    device: torch.device
    augmentation: Augmentation = Augmentation()
    target: tuple[float, float] | None = None
    """Mean and standard deviation of the numbers to predict, which batches have as multiples of it."""

    def __len__(self) -> int:
        return -(-len(self.images) // self.batch_size)

    def order(self, generator: torch.Generator) -> Tensor:
        return self.augmentation.order(self.images.labels, generator)

    def batches(self, order: Tensor, generator: torch.Generator, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Augmented batches of the images in `order`, from batch `start` on."""
        a, classes = self.augmentation, len(self.images.classes)
        for pixels, labels in self._taken(order.split(self.batch_size)[start:]):
            yield a.batch(self._ready(a.pixels(pixels, generator)), labels, classes, generator)

    def plain(self) -> Iterator[tuple[Tensor, Tensor]]:
        for pixels, labels in self._taken(torch.arange(len(self.images)).split(self.batch_size)):
            yield self._ready(pixels), labels

    def spread(self, most: int) -> Loader:
        """At most this many images, spread over the set: neighbors are often alike."""
        index = torch.linspace(0, len(self.images) - 1, min(most, len(self.images))).long()
        return replace(self, images=self.images.take(index))

    def _ready(self, pixels: Tensor) -> Tensor:
        """What is stored as floats, noise, is normal already."""
        noise = self.images.pixels.is_floating_point()
        return resize(pixels if noise else normalize(pixels, self.mean, self.std), self.size)

    def _taken(self, batches: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Images that have to be decoded are, one batch ahead."""
        if not isinstance(self.images.pixels, Streamed):
            yield from map(self._take, batches)
            return
        with ThreadPoolExecutor(1) as ahead:
            waiting = [ahead.submit(self._take, index) for index in batches[:1]]
            for index in batches[1:]:
                waiting.append(ahead.submit(self._take, index))
                yield waiting.pop(0).result()
            yield from (one.result() for one in waiting)

    def _take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        pixels = self.images.pixels[self.images.rows[index]]
        labels = self.images.labels[index]
        if self.target is not None:
            labels = (labels - self.target[0]) / self.target[1]
        return pixels.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)


def channel_statistics(
    images: Images, most: int = 20_000, values: int = 2**26
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel in 0..1, from images spread over the set: limited in number, and in
    values in all."""
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
