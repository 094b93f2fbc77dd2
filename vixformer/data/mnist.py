"""MNIST and Fashion-MNIST: IDX files, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vixformer.data.dataset import DataSet, Download, Images, Part, check_labels, read_bytes

LARGEST = 1 << 32
"""Bytes. No IDX file of images is larger, whatever a damaged header says."""


class MNIST(DataSet, name="mnist"):
    about = "handwritten digits"
    shape = (1, 28, 28)
    counts = {"train": 60_000, "test": 10_000}
    digests = {"train": "d18cfd466eb143ac1097fde604dba9ee", "test": "a0863a96c44e5666edbb30c4071ee79c"}
    folder = "MNIST"
    classes: tuple[str, ...] = tuple("0123456789")
    downloads = tuple(
        Download(f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz", f"md5:{md5}", "MNIST/raw")
        for name, md5 in {
            "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
        }.items()
    )

    def _file(self, part: Part, what: str) -> Path:
        plain = self.root / self.folder / "raw" / f"{'train' if part == 'train' else 't10k'}-{what}-ubyte"
        packed = plain.with_name(plain.name + ".gz")
        return plain if plain.exists() or not packed.exists() else packed

    def here(self) -> bool:
        return all(
            self._file(part, what).exists() for part in ("train", "test") for what in ("images-idx3", "labels-idx1")
        )

    def read(self, part: Part) -> Images:
        images, labels = self._file(part, "images-idx3"), self._file(part, "labels-idx1")
        pixels = read_idx(images, read_bytes(images, self), 3)
        numbers = read_idx(labels, read_bytes(labels, self), 1)
        if len(pixels) != len(numbers):
            raise ValueError(
                f"{images} has {len(pixels)} images and {labels} {len(numbers)} labels: one of them is damaged, get"
                " both again"
            )
        return Images.all(pixels.unsqueeze(1), check_labels(numbers, len(self.classes), labels), self.classes)


class FashionMNIST(MNIST, name="fashion-mnist"):
    about = "photographs of clothes"
    digests = {"train": "1f243a60b4b748a44c48b9a6f6907be2", "test": "9a494dc49efeb996f4076c469b31cd05"}
    folder = "FashionMNIST"
    classes = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
    downloads = tuple(
        Download(
            f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz", f"md5:{md5}", "FashionMNIST/raw"
        )
        for name, md5 in {
            "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
        }.items()
    )


def read_idx(path: Path, data: bytes, dimensions: int) -> Tensor:
    """An IDX file of unsigned bytes with this many dimensions, every claim of its header checked."""
    if data[:2] == b"\x1f\x8b":
        data = _unzip(path, data)
    header = 4 + 4 * dimensions
    if len(data) < header:
        raise ValueError(f"{path} is cut short: {len(data)} bytes are less than the header of an IDX file")
    if data[:4] != bytes((0, 0, 8, dimensions)):
        raise ValueError(
            f"{path} is no IDX file of {dimensions} dimensions: it starts with {data[:4].hex()}, not"
            f" 000008{dimensions:02x}"
        )
    shape = struct.unpack(f">{dimensions}I", data[4:header])
    size = math.prod(shape)
    if size != len(data) - header:
        raise ValueError(
            f"{path} is damaged: its header announces {size} bytes of data and {len(data) - header} follow; get it"
            " again"
        )
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=header).reshape(shape).copy())


def _unzip(path: Path, data: bytes) -> bytes:
    unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        out = unzip.decompress(data, LARGEST)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged, get it again: {error}") from None
    if not unzip.eof:
        raise ValueError(f"{path} is cut short, or far too large, for a gzipped IDX file; get it again")
    return out
