"""Data sets: every kind of damage, and the real files where they are."""

from __future__ import annotations

import gzip
import os
import random
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.datasets import idx, write_cifar, write_mnist, write_tiny
from vixformer.data.cifar import CIFAR10, CIFAR100
from vixformer.data.dataset import DataSet, Images, content_digest, data_root
from vixformer.data.folder import TinyImageNet
from vixformer.data.mnist import MNIST, read_idx


@pytest.mark.skipif("VIX_DATA" not in os.environ, reason="the real files are not here: set VIX_DATA")
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_real_content_is_as_published(name: str) -> None:
    source = DataSet.member(name)(data_root())
    parts: tuple[Any, ...] = ("train", "test")
    for part in parts:
        images = source.read(part)
        assert content_digest(images) == source.digests[part]
        images.labels[0] = (images.labels[0] + 1) % 10
        assert content_digest(images) != source.digests[part]


def test_labels_that_do_not_fit(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "train-labels-idx1-ubyte"
    path.write_bytes(idx(np.full(30, 11)))
    with pytest.raises(ValueError, match="has the label 11, and labels go from 0 to 9"):
        MNIST(tmp_path).read("train")
    path.write_bytes(idx(np.zeros(29)))
    with pytest.raises(ValueError, match=r"has 30 images and .* 29 labels"):
        MNIST(tmp_path).read("train")


def test_missing_files_say_where_to_get_them(tmp_path: Path) -> None:
    for dataset in (MNIST, CIFAR10, CIFAR100, TinyImageNet):
        assert not dataset(tmp_path).here()
        with pytest.raises(ValueError, match=f"vix data get {dataset.name}"):
            dataset(tmp_path).read("train")


def mutated(original: bytes, rng: random.Random) -> bytes:
    data = bytearray(original)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data))
        change = rng.randrange(3)
        if change == 0:
            data[at] = rng.randrange(256)
        elif change == 1:
            del data[at : at + rng.randint(1, 40)]
        else:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        data = data or bytearray(b"x")
    return bytes(data)


@pytest.mark.parametrize("kind", ["pickle", "binary", "idx", "gz", "jpeg", "annotations"])
@pytest.mark.usefixtures("cache")
def test_500_mutations_are_refused_or_read(kind: str, tmp_path: Path) -> None:
    """Images or one sentence; never a traceback, a hang or a lot of memory."""
    rng = random.Random(kind)
    home = write_tiny(tmp_path)
    write_cifar(tmp_path, CIFAR10, python=kind == "pickle", count=2)
    path, read = {
        "pickle": (tmp_path / CIFAR10.python / "test_batch", lambda: CIFAR10(tmp_path).read("test")),
        "binary": (tmp_path / CIFAR10.binary / "test_batch.bin", lambda: CIFAR10(tmp_path).read("test")),
        "idx": (tmp_path / "idx", lambda: read_idx(path, path.read_bytes(), 3)),
        "gz": (tmp_path / "idx.gz", lambda: read_idx(path, path.read_bytes(), 3)),
        "jpeg": (home / "val" / "images" / "val_1.JPEG", lambda: TinyImageNet(tmp_path).read("test")),
        "annotations": (home / "val" / "val_annotations.txt", lambda: TinyImageNet(tmp_path).read("test")),
    }[kind]
    if kind in ("idx", "gz"):
        path.write_bytes(idx(np.zeros((3, 28, 28))) if kind == "idx" else gzip.compress(idx(np.zeros((3, 28, 28)))))
    original = path.read_bytes()
    memory, began, refused = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), 0
    for _ in range(500):
        path.write_bytes(mutated(original, rng))
        try:
            read()
        except ValueError as error:
            refused += 1
            assert str(path.parent) in str(error)  # noqa: PT017
            assert "\n" not in str(error)[:80]  # noqa: PT017
    assert refused > 20
    assert time.process_time() - began < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300 * 1024


def test_parts_share_their_pixels() -> None:
    images = Images.all(torch.zeros(10, 1, 2, 2, dtype=torch.uint8), torch.arange(10), ("a",) * 10)
    part = images.take(torch.tensor([7, 3])).take(torch.tensor([1]))
    assert part.labels.tolist() == part.rows.tolist() == [3]
    assert part.pixels.data_ptr() == images.pixels.data_ptr()


def test_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIX_DATA", "/somewhere")
    assert data_root() == Path("/somewhere")
    assert data_root("/else") == Path("/else")
    monkeypatch.delenv("VIX_DATA")
    assert data_root() == Path.home() / ".cache" / "vix" / "data"


@pytest.mark.skipif("VIX_DATA" not in os.environ, reason="the real files are not here: set VIX_DATA")
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100", "tiny-imagenet"])
def test_real_files(name: str) -> None:
    source = DataSet.member(name)(data_root())
    if not source.here():
        pytest.skip(f"{name} is not under VIX_DATA")
    parts: tuple[Any, ...] = ("train", "test")
    for part in parts:
        images = source.read(part)
        assert images.shape == source.shape
        assert 0 < len(images) <= source.counts[part]
        assert torch.bincount(images.labels).float().std() < torch.bincount(images.labels).float().mean()
