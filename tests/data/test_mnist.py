"""The format of MNIST, and damage to it."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.datasets import write_mnist
from vixformer.data.dataset import DataSet
from vixformer.data.mnist import MNIST, FashionMNIST


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("dataset", "folder"), [(MNIST, "MNIST"), (FashionMNIST, "FashionMNIST")])
def test_idx_files(dataset: type[DataSet], folder: str, packed: bool, tmp_path: Path) -> None:
    images, labels = write_mnist(tmp_path, folder, packed=packed)
    source = dataset(tmp_path)
    assert source.here()
    for part in ("train", "test"):
        read = source.read(part)
        assert read.pixels.dtype == torch.uint8
        assert np.array_equal(read.pixels[:, 0].numpy(), images)
        assert read.labels.tolist() == labels.tolist()
        assert len(read.classes) == 10


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d[:10], "cut short: 10 bytes"),
        (lambda d: d[:-5], "announces 23520 bytes of data and 23515 follow"),
        (lambda d: d + b"x", "announces 23520 bytes of data and 23521 follow"),
        (lambda d: b"\x00\x00\x0d\x03" + d[4:], "is no IDX file of 3 dimensions"),
        (lambda d: d[:4] + struct.pack(">I", 2**32 - 1) + d[8:], "is damaged"),
        (lambda d: b"", "cut short"),
        (lambda d: b"GIF89a" + d, "is no IDX file"),
        (lambda d: gzip.compress(d)[:50], "cut short|damaged"),
        (lambda d: b"\x1f\x8b" + d, "damaged"),
    ],
)
def test_damaged_idx_files(damage, message: str, tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message) as caught:
        MNIST(tmp_path).read("train")
    assert str(path) in str(caught.value)
