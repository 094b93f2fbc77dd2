"""Images, data sets and archives."""

from __future__ import annotations

import contextlib
import gzip
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.damage import bytes_of, gzip_of
from tests.support.datasets import Evil, write_cifar, write_mnist
from tests.support.kinds.kind import RAW, Kind
from tests.support.pictures import encoded
from vixformer.data.cifar import CIFAR10
from vixformer.data.download import _unpack  # pyright: ignore[reportPrivateUsage]
from vixformer.data.folder import Folder, TinyImageNet
from vixformer.data.mnist import MNIST
from vixformer.data.picture import open_picture


def _packed(folder: Path) -> None:
    write_mnist(folder, count=3, packed=True)


def _binary(folder: Path) -> None:
    write_cifar(folder, CIFAR10, python=False, count=3)


PICTURES = (
    ("png", "PNG"),
    ("jpg", "JPEG"),
    ("gif", "GIF"),
    ("webp", "WEBP"),
    ("bmp", "BMP"),
    ("tiff", "TIFF"),
    ("ppm", "PPM"),
)


def _images(folder: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8))
    for part in ("train", "test"):
        for name in ("a", "b"):
            (folder / part / name).mkdir(parents=True)
            for ending, form in PICTURES:
                (folder / part / name / f"x.{ending}").write_bytes(encoded(noise, form))


def _folder(folder: Path) -> None:
    with contextlib.suppress(ValueError):
        for path in sorted((folder / "train" / "a").iterdir()):
            open_picture(path.read_bytes(), 1)
    source = Folder(folder)
    source.size = (8, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        source.read("train")


def _tiny_imagenet(folder: Path) -> None:
    home = folder / "tiny-imagenet-200"
    picture = encoded(Image.new("RGB", (64, 64), "red"), "JPEG")
    for place in ("train/n01/images", "train/n02/images", "val/images"):
        (home / place).mkdir(parents=True)
        (home / place / "a.JPEG").write_bytes(picture)
    (home / "wnids.txt").write_text("n01\nn02\n")
    (home / "words.txt").write_text("n01\tfish, one\nn02\tbird\n")
    (home / "val" / "val_annotations.txt").write_text("a.JPEG\tn02\t0\t0\t1\t1\n")


def _read_tiny_imagenet(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        _both(TinyImageNet(folder))


def _both(source: Any) -> None:
    """One part with a fault does not keep the other from being tried."""
    with contextlib.suppress(ValueError):
        source.read("train")
    source.read("test")


def _pickles(folder: Path) -> None:
    write_cifar(folder, CIFAR10, python=True, count=3)
    evil = {b"data": Evil(folder / "ran"), b"labels": [Evil(folder / "ran")]}
    (folder / CIFAR10.python / "data_batch_1").write_bytes(pickle.dumps(evil, protocol=2))


def _harmless(folder: Path) -> None:
    try:
        _both(CIFAR10(folder))
    finally:
        assert not (folder / "ran").exists()


def _archives(folder: Path) -> None:
    (folder / "x").mkdir()
    (folder / "x" / "inside").write_bytes(bytes(range(256)) * 4)
    with tarfile.open(folder / "a.tar", "w") as archive:
        archive.add(folder / "x", "x")
        archive.add(folder / "x" / "inside", "../outside")
    (folder / "a.tar.gz").write_bytes(gzip.compress((folder / "a.tar").read_bytes()))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "x" / "inside", "x/inside")
        archive.write(folder / "x" / "inside", "../outside")


def _extract(folder: Path) -> None:
    for name in ("a.tar.gz", "a.tar", "a.zip"):
        target = folder / f"to-{name}"
        target.mkdir(exist_ok=True)
        with contextlib.suppress(ValueError, OSError):
            _unpack(folder / name, target)
        assert not (folder / "outside").exists()


KINDS = {
    "image folder": Kind(_images, _folder, {"t*/*/*": RAW}),
    "Tiny ImageNet": Kind(_tiny_imagenet, _read_tiny_imagenet, {"*/*.txt": RAW, "*/val/*.txt": RAW}),
    "MNIST": Kind(_packed, lambda f: _both(MNIST(f)), {"MNIST/raw/*": (gzip_of, bytes_of)}),
    "CIFAR binary": Kind(_binary, lambda f: _both(CIFAR10(f)), {"*/*.bin": RAW}),
    "CIFAR pickle": Kind(_pickles, _harmless, {"*/*_batch*": RAW}),
    "archive": Kind(_archives, _extract, {"a.*": RAW}),
}
