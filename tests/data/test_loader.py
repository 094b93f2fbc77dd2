"""Loaders: which images they change, and sets larger than memory."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from vixformer.config import Data, Recipe, recipe_from_dict
from vixformer.data.augment import normalize
from vixformer.data.cache import mapped
from vixformer.data.dataset import Images
from vixformer.data.loader import Augmentation, Loader, channel_statistics
from vixformer.training.parts import load_parts


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pixels(n: int = 64, c: int = 3, side: int = 12) -> torch.Tensor:
    return torch.randint(1, 256, (n, c, side, side), dtype=torch.uint8, generator=generator(5))


def test_statistics() -> None:
    images = Images.all(pixels(500), torch.zeros(500, dtype=torch.int64), ("a",))
    mean, std = channel_statistics(images)
    values = images.pixels.double().transpose(0, 1).flatten(1) / 255
    assert torch.allclose(torch.tensor(mean, dtype=torch.float64), values.mean(1), atol=1e-6)
    assert torch.allclose(torch.tensor(std, dtype=torch.float64), values.std(1, correction=0), atol=1e-6)


def test_loaders_augment_training_and_nothing_else() -> None:
    images = Images.all(pixels(10), torch.arange(10), tuple("abcdefghij"))
    loader = Loader(
        images, 4, (0.5,), (0.5,), (12, 12), torch.device("cpu"), Augmentation(crop=2, flip=True, rotate=5.0)
    )
    assert len(loader) == 3
    plain = list(loader.plain())
    assert [len(labels) for _, labels in plain] == [4, 4, 2]
    assert torch.equal(torch.cat([x for x, _ in plain]), normalize(images.pixels, (0.5,), (0.5,)))
    order = loader.order(generator())
    batches = list(loader.batches(order, generator()))
    assert sorted(torch.cat([labels for _, labels in batches]).tolist()) == list(range(10))
    assert not torch.equal(batches[0][0], normalize(images.pixels[order[:4]], (0.5,), (0.5,)))
    later = list(loader.batches(order, generator(), start=2))
    assert len(later) == 1
    assert torch.equal(later[0][1], batches[2][1])


def test_a_set_larger_than_memory_streams(tmp_path: Path) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    side = 224
    shape = (2 * memory // (3 * side * side), 3, side, side)
    with (tmp_path / "images.u8").open("wb") as file:
        file.truncate(math.prod(shape))  # a file of holes takes no room on disk
        file.seek(5 * 3 * side * side)
        file.write(bytes([200]) * (3 * side * side))
    images = Images.all(mapped(tmp_path / "images.u8", shape), torch.arange(shape[0]) % 10, tuple("abcdefghij"))
    loader = Loader(images, 16, (0.5,), (0.5,), (side, side), torch.device("cpu"), Augmentation(crop=4, flip=True))
    order = loader.order(generator())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i, (batch, _) in enumerate(loader.batches(order, generator())):
        assert batch.shape == (16, 3, side, side)
        if i == 5:
            break
    channel_statistics(images, most=200)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < memory / 8
    assert images.pixels[5].float().mean() == 200


def test_every_augmentation_trains_and_repeats() -> None:
    images = Images.all(pixels(40), torch.arange(40) % 5, tuple("abcde"))
    every = Augmentation(
        crop=2, flip=True, rotate=5.0, cutout=3, crop_scale=(0.3, 1.0), rand_augment=2, auto_augment="cifar",
        color_jitter=0.4, erase=0.5, mixup=0.8, cutmix=1.0, repeats=2, balanced=True,
    )  # fmt: skip
    loader = Loader(images, 16, (0.5,) * 3, (0.5,) * 3, (12, 12), torch.device("cpu"), every)
    order = loader.order(generator())
    batches = list(loader.batches(order, generator(1)))
    assert [tuple(labels.shape) for _, labels in batches] == [(16, 5), (16, 5), (8, 5)]
    assert all(x.isfinite().all() and x.shape[1:] == (3, 12, 12) for x, _ in batches)
    again = list(loader.batches(order, generator(1)))
    for (x, soft), (same_x, same_soft) in zip(batches, again, strict=True):
        assert torch.equal(x, same_x)
        assert torch.equal(soft, same_soft)
    plain = next(loader.plain())[1]
    assert torch.equal(plain, images.labels[:16])


def test_repeats_and_balance_choose_the_images_of_an_epoch() -> None:
    labels = torch.tensor([0] * 900 + [1] * 90 + [2] * 10)
    repeated = Augmentation(repeats=3).order(labels, generator())
    assert len(repeated) == 1000
    assert torch.equal(repeated[0:999:3], repeated[2:999:3])
    assert len(repeated.unique()) == 334
    drawn = labels[Augmentation(balanced=True).order(labels, generator())]
    assert len(drawn) == 1000
    assert torch.bincount(drawn).min() > 280
    assert torch.equal(Augmentation().order(labels, generator()), torch.randperm(1000, generator=generator()))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"data": {"crop_scale": [0.9, 0.2]}},
            "crop_scale is the least and the most part, such as 0.2 0.9, not 0.9 0.2",
        ),
        ({"data": {"crop_scale": [0, 1]}}, "crop_scale must be greater than 0"),
        ({"data": {"rand_augment": 11}}, "rand_augment must be less than or equal to 10"),
        ({"data": {"auto_augment": "imagenet"}}, "auto_augment must be cifar or none, not 'imagenet'"),
        ({"data": {"mixup": 0.8}, "train": {"loss": "focal"}}, "loss=focal needs one label per image"),
        ({"train": {"ema": 1.0}}, "ema must be less than 1"),
        ({"train": {"ema": 0.9, "shard": True}}, "ema needs all weights in one place: leave out ema, or shard"),
        ({"train": {"layer_decay": 0}}, "layer_decay must be greater than 0"),
    ],
)
def test_what_an_option_refuses(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        recipe_from_dict(values, "mine")


def test_noise_has_no_colors() -> None:
    recipe = Recipe(data=Data(name="synthetic", rand_augment=2))
    with pytest.raises(ValueError, match=r"synthetic has no colors: leave out data.rand_augment"):
        load_parts(recipe, torch.device("cpu"))
