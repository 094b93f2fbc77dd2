"""From pixels to batches: augmentation, splits, loaders."""

from __future__ import annotations

import math
import os
import resource
from pathlib import Path

import pytest
import torch

from vixformer.data import split
from vixformer.data.augment import crop_and_flip, cut_out, normalise, resize, rotate
from vixformer.data.cache import mapped
from vixformer.data.dataset import Images
from vixformer.data.loader import Augmentation, Loader, channel_statistics


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pixels(n: int = 64, c: int = 3, side: int = 12) -> torch.Tensor:
    return torch.randint(1, 256, (n, c, side, side), dtype=torch.uint8, generator=generator(5))


def test_crop_and_flip_only_move_pixels() -> None:
    x = pixels()
    out = crop_and_flip(x, 3, True, generator())
    assert out.dtype == torch.uint8
    padded = torch.nn.functional.pad(x, [3] * 4)
    shifts = set()
    for original, moved in zip(padded, out, strict=True):
        found = [
            (r, c, flipped)
            for r in range(7)
            for c in range(7)
            for flipped in (False, True)
            if torch.equal(original[:, r : r + 12, c : c + 12].flip(2) if flipped else original[:, r : r + 12, c : c + 12], moved)
        ]
        assert len(found) == 1
        shifts.add(found[0])
    assert len(shifts) > 30
    assert {f for *_, f in shifts} == {True, False}
    assert torch.equal(crop_and_flip(x, 0, False, generator()), x)
    assert torch.equal(crop_and_flip(x, 3, True, generator(1)), crop_and_flip(x, 3, True, generator(1)))


def test_rotation_turns_and_keeps_the_middle() -> None:
    x = torch.zeros(200, 1, 21, 21)
    x[:, :, 10, 10] = 1.0
    assert torch.allclose(rotate(x, 5.0, generator())[:, :, 10, 10], torch.ones(200, 1), atol=1e-4)
    x = torch.zeros(200, 1, 21, 21)
    x[:, :, 10, 18] = 1.0
    out = rotate(x, 90.0, generator())
    assert (out[:, 0, 10, 18] < 0.5).float().mean() > 0.9
    square = torch.rand(4, 3, 16, 24)
    assert torch.equal(rotate(square, 0.0, generator()), square)
    assert rotate(square, 5.0, generator()).shape == square.shape
    assert (rotate(square, 5.0, generator()) - square).abs().mean() < 0.2
    inks = torch.randint(5, (4, 1, 16, 16)).float()
    assert set(rotate(inks, 9.0, generator(), "nearest").unique().tolist()) <= set(range(5))  # no value between two pixels
    assert not torch.equal(rotate(inks, 9.0, generator(), "nearest"), inks)


def test_a_square_is_cut_out_anywhere() -> None:
    x = torch.full((300, 2, 12, 20), 7, dtype=torch.uint8)
    out = cut_out(x, 4, generator())
    assert out.dtype == torch.uint8
    assert set(out.unique().tolist()) == {0, 7}
    black = (out == 0).sum((2, 3))
    assert torch.equal(black[:, 0], black[:, 1])
    assert black.max() == 16
    assert black.min() < 16  # some lie partly outside
    assert (out == 0).any(0).all()  # no pixel is safe
    assert torch.equal(cut_out(x, 0, generator()), x)


def test_what_comes_in_at_a_corner_is_black() -> None:
    """And not grey, which zero would be after normalisation."""
    black = Images.all(torch.zeros(8, 1, 28, 28, dtype=torch.uint8), torch.zeros(8, dtype=torch.int64), ("a",))
    loader = Loader(black, 8, (0.5,), (0.5,), (28, 28), torch.device("cpu"), Augmentation(crop=4, rotate=20.0))
    (batch,) = loader.batches(loader.order(generator()), generator())
    assert torch.allclose(batch[0], torch.tensor(-1.0))


def test_normalisation_and_resize() -> None:
    x = normalise(pixels(), (0.5, 0.4, 0.3), (0.2, 0.25, 0.5))
    expected = (pixels().float() / 255 - torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)) / torch.tensor([0.2, 0.25, 0.5]).view(3, 1, 1)
    assert torch.allclose(x, expected, atol=1e-5)
    assert resize(x, (72, 72)).shape[-2:] == (72, 72)
    noise = Images.all(torch.randn(4, 3, 12, 12), torch.arange(4), tuple("abcd"))
    loader = Loader(noise, 4, (0.5,), (0.5,), (12, 12), torch.device("cpu"))
    assert torch.equal(next(loader.plain())[0], noise.pixels)


def test_statistics() -> None:
    images = Images.all(pixels(500), torch.zeros(500, dtype=torch.int64), ("a",))
    mean, std = channel_statistics(images)
    values = images.pixels.double().transpose(0, 1).flatten(1) / 255
    assert torch.allclose(torch.tensor(mean, dtype=torch.float64), values.mean(1), atol=1e-6)
    assert torch.allclose(torch.tensor(std, dtype=torch.float64), values.std(1, correction=0), atol=1e-6)


def test_splits_are_stratified_and_deterministic() -> None:
    labels = torch.arange(1000) % 10
    train, val = split.validation(labels, 0.1, 0)
    assert torch.bincount(labels[val]).tolist() == [10] * 10
    assert sorted([*train.tolist(), *val.tolist()]) == list(range(1000))
    assert torch.equal(split.validation(labels, 0.1, 0)[1], val)
    assert not torch.equal(split.validation(labels, 0.1, 1)[1], val)
    folds = [split.fold(labels, 5, i, 0)[1] for i in range(5)]
    assert sorted(torch.cat(folds).tolist()) == list(range(1000))
    assert all(torch.bincount(labels[f]).tolist() == [20] * 10 for f in folds)
    assert torch.bincount(labels[split.fraction(labels, 0.05, 0)]).tolist() == [5] * 10
    assert len(split.fraction(labels, 1.0, 0)) == 1000
    assert len(split.validation(labels, 0.0, 0)[1]) == 0
    with pytest.raises(ValueError, match=r"data.fraction = 0.001 leaves too few of 1000 images"):
        split.fraction(labels, 0.001, 0)
    with pytest.raises(ValueError, match="5 folds need at least 5 images of every class, and one class has 1"):
        split.fold(torch.arange(10), 5, 0, 0)


def test_loaders_augment_training_and_nothing_else() -> None:
    images = Images.all(pixels(10), torch.arange(10), tuple("abcdefghij"))
    loader = Loader(images, 4, (0.5,), (0.5,), (12, 12), torch.device("cpu"), Augmentation(crop=2, flip=True, rotate=5.0))
    assert len(loader) == 3
    plain = list(loader.plain())
    assert [len(labels) for _, labels in plain] == [4, 4, 2]
    assert torch.equal(torch.cat([x for x, _ in plain]), normalise(images.pixels, (0.5,), (0.5,)))
    order = loader.order(generator())
    batches = list(loader.batches(order, generator()))
    assert sorted(torch.cat([labels for _, labels in batches]).tolist()) == list(range(10))
    assert not torch.equal(batches[0][0], normalise(images.pixels[order[:4]], (0.5,), (0.5,)))
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
