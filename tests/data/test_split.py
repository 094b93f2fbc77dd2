"""Splits."""

from __future__ import annotations

import pytest
import torch

from vixformer.data import split


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
