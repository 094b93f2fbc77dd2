"""Which images train, which choose the epoch, which are left out: stratified, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vixformer.options import flag_of


def _classes(labels: Tensor) -> Tensor:
    """What a split is stratified by: nothing, where an image may have several labels, or a number to predict."""
    return (
        labels if labels.dim() == 1 and not labels.is_floating_point() else torch.zeros(len(labels), dtype=torch.int64)
    )


def fraction(labels: Tensor, share: float, seed: int, what: str = "data.fraction") -> Tensor:
    """Indices of a stratified part of the set, in order."""
    return torch.arange(len(labels)) if share >= 1 else _apart(labels, share, seed, what)[1]


def validation(labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices to train on and to validate on."""
    if share == 0:
        return torch.arange(len(labels)), torch.arange(0)
    return _apart(labels, share, seed, "data.val_fraction")


def fold(labels: Tensor, folds: int, number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Indices to train on and to validate on, in fold `number` of `folds`."""
    from sklearn.model_selection import StratifiedKFold  # here, because it takes a second to load

    labels = _classes(labels)
    least = int(torch.bincount(labels)[torch.bincount(labels) > 0].min())
    if least < folds:
        raise ValueError(
            f"{folds} folds need at least {folds} images of every class, and one class has {least}: use fewer folds"
        )
    parts = StratifiedKFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(labels)), labels.numpy())
    train, val = list(parts)[number]
    return torch.from_numpy(np.sort(train)), torch.from_numpy(np.sort(val))


def _apart(labels: Tensor, share: float, seed: int, what: str) -> tuple[Tensor, Tensor]:
    from sklearn.model_selection import StratifiedShuffleSplit

    labels = _classes(labels)
    try:
        splitter = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
        rest, part = next(splitter.split(np.zeros(len(labels)), labels.numpy()))
    except ValueError:
        raise ValueError(
            f"{what} = {share} leaves too few of {len(labels)} images for {_advice(labels, what)}"
        ) from None
    return torch.from_numpy(np.sort(rest)), torch.from_numpy(np.sort(part))


def _advice(labels: Tensor, what: str) -> str:
    counts = torch.bincount(labels)
    least, classes = int(counts[counts > 0].min()), int((counts > 0).sum())
    flag, off = flag_of(what), 0 if what == "data.val_fraction" else 1
    smallest = -(-100 * classes // len(labels)) / 100
    if least < 2:
        return f"two of every class, and one class has a single one: add images, or give {flag} {off}"
    if smallest > 0.5:
        return f"one of every class: add images, or give {flag} {off}"
    return f"one of every class: give {flag} from {smallest} to {1 - smallest:.2f}, or {off}"
