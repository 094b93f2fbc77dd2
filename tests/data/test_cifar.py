"""The format of CIFAR, and damage to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.datasets import write_cifar
from vixformer.data.cifar import CIFAR10, CIFAR100


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("dataset", [CIFAR10, CIFAR100])
def test_cifar(dataset: type[CIFAR10], python: bool, tmp_path: Path) -> None:
    pixels, labels = write_cifar(tmp_path, dataset, python)
    source = dataset(tmp_path)
    assert source.here()
    test = source.read("test")
    assert test.shape == (3, 32, 32)
    assert np.array_equal(test.pixels.flatten(1).numpy(), pixels)
    assert test.labels.tolist() == labels.tolist()
    assert len(source.read("train")) == 7 * len(source.files("train"))


def test_damaged_cifar(tmp_path: Path) -> None:
    write_cifar(tmp_path, CIFAR10, python=False)
    path = tmp_path / CIFAR10.binary / "test_batch.bin"
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    with pytest.raises(ValueError, match="no whole number of images of 3073 bytes"):
        CIFAR10(tmp_path).read("test")
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="0 bytes are no whole number"):
        CIFAR10(tmp_path).read("test")
    path.write_bytes(b"\xff" + good[1:])
    with pytest.raises(ValueError, match="has the label 255"):
        CIFAR10(tmp_path).read("test")
