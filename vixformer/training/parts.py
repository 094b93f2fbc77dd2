"""The data of a run, split and ready for batches, and the device they go to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vixformer.config import Data, Recipe
from vixformer.data import split
from vixformer.data.dataset import Images, Whole, are_numbers
from vixformer.data.loader import Augmentation, Loader, channel_statistics
from vixformer.measure.machine import usable
from vixformer.notes import note
from vixformer.options import only


@dataclass(frozen=True)
class Parts:
    """The data of a run, ready for batches."""

    train: Loader
    val: Loader | None
    test: Loader
    classes: tuple[str, ...]
    digest: str
    """Of the whole data set, before it was cut or split."""
    split_off: str = ""
    """Which images test, in a sentence, where nobody put test images apart."""

    @property
    def target(self) -> tuple[float, float] | None:
        """Mean and standard deviation of the numbers to predict; None of classes."""
        return self.train.target


class Reader:
    """Reads a data set once for all runs that follow one another on it. It keeps the last one, because they are large,
    and all digests."""

    def __init__(self) -> None:
        self.last: tuple[object, Whole] | None = None
        self.digests: dict[object, str] = {}

    def __call__(self, data: Data) -> Whole:
        key = _key(data)
        if self.last is None or self.last[0] != key:
            self.last = None
            self.last = key, _read(data)
        return self.last[1]

    def digest(self, data: Data) -> str:
        key = _key(data)
        if key not in self.digests:
            self.digests[key] = self(data).digest
        return self.digests[key]

    def forget(self) -> None:
        self.last = None


def _key(data: Data) -> object:
    return data.name, data.root, data.resize, data.test_split, data.gray, data.target


def _read(data: Data) -> Whole:
    whole = data.source().whole()
    if whole.split_off:
        note(whole.split_off)
    return whole


def load_parts(recipe: Recipe, device: torch.device, whole: Whole | None = None) -> Parts:
    """Selection never looks at the test set: validation is a stratified part of the training images, or a fold of them.
    `whole` is the data set where it was read before."""
    data, train = recipe.data, recipe.train
    whole = whole or _read(data)
    everything, test = whole.train, whole.test
    numbers = are_numbers(everything.labels)
    if len(everything.classes) < 2 and not numbers:
        single = " ".join(everything.classes)
        raise ValueError(f"{data.name} has only one class, {single}: add images of at least one more class")
    everything = everything.take(split.fraction(everything.labels, data.fraction, data.split_seed))
    test = test.take(split.fraction(test.labels, data.test_fraction, data.split_seed, "data.test_fraction"))
    if data.folds is not None:
        chosen, held = split.fold(everything.labels, data.folds, data.fold, data.split_seed)
    else:
        chosen, held = split.validation(everything.labels, data.val_fraction, data.split_seed)
    learn = everything.take(chosen)
    if train.batch_size > len(learn):
        fitting = 2 ** (len(learn).bit_length() - 1)
        raise ValueError(
            f"train.batch_size is {train.batch_size} and there are only {len(learn)} images to train on: give"
            f" --train.batch-size {fitting}"
        )
    measured = channel_statistics(learn) if data.mean is None or data.std is None else None
    mean, std = data.mean or (measured and measured[0]), data.std or (measured and measured[1])
    assert mean is not None and std is not None
    for name, values in (("mean", mean), ("std", std)):
        if len(values) not in (1, learn.shape[0]):
            raise ValueError(
                f"data.{name} has {len(values)} values and the images {learn.shape[0]} channels: give one a channel"
            )
    size = learn.shape[1:] if data.resize is None else (data.resize, data.resize)

    target = _spread(learn.labels.double()) if numbers else None

    def loader(images: Images, augmentation: Augmentation | None = None) -> Loader:
        return Loader(images, train.batch_size, mean, std, size, device, augmentation or Augmentation(), target)

    augmentation = only(Augmentation, data)
    if data.balanced and learn.labels.is_floating_point():
        what = "numbers to predict" if numbers else "several labels"
        raise ValueError(f"images of {data.name} have {what}: leave out data.balanced")
    if learn.pixels.is_floating_point() and (data.rand_augment or data.auto_augment or data.color_jitter):
        raise ValueError(
            f"{data.name} has no colors: leave out data.rand_augment, data.auto_augment and data.color_jitter"
        )
    val = loader(everything.take(held)) if len(held) else None
    return Parts(loader(learn, augmentation), val, loader(test), learn.classes, whole.digest, whole.split_off)


def _spread(numbers: Tensor) -> tuple[float, float]:
    """Mean and standard deviation, of numbers that differ."""
    deviation = numbers.std(correction=0).item()
    if deviation == 0:
        raise ValueError(f"all training images have the number {numbers[0].item():g}: there is nothing to predict")
    return numbers.mean().item(), deviation


def pick_device(name: str) -> torch.device:
    if name != "auto":
        return usable(name, "train.device")
    return torch.device("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")
