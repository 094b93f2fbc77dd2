"""CIFAR-10 and CIFAR-100: the binary and the Python version."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from vixformer.data.dataset import DataSet, Download, Images, Part, check_labels, read_bytes
from vixformer.data.pickles import load_harmless

PIXELS = 3 * 32 * 32


class CIFAR10(DataSet, name="cifar10"):
    about = "small photographs, 10 classes"
    shape = (3, 32, 32)
    counts = {"train": 50_000, "test": 10_000}
    digests = {"train": "973ef2abb5897efc795681a4d79a6f5f", "test": "2c33b053d1cd726af8d86e174a96dd89"}
    downloads = (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            unpack=True,
        ),
    )
    classes: ClassVar[tuple[str, ...]] = (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    )
    binary: ClassVar[str] = "cifar-10-batches-bin"
    python: ClassVar[str] = "cifar-10-batches-py"
    label_bytes: ClassVar[int] = 1
    label_key: ClassVar[bytes] = b"labels"

    def files(self, part: Part) -> list[str]:
        return [f"data_batch_{i}" for i in range(1, 6)] if part == "train" else ["test_batch"]

    def _paths(self, part: Part) -> list[Path]:
        """The binary files where they are all there, else the Python ones, else the binary ones that are missing."""
        binary = [self.root / self.binary / f"{name}.bin" for name in self.files(part)]
        python = [self.root / self.python / name for name in self.files(part)]
        complete = [paths for paths in (binary, python) if all(path.exists() for path in paths)]
        return complete[0] if complete else binary

    def here(self) -> bool:
        return all(path.exists() for part in ("train", "test") for path in self._paths(part))

    def read(self, part: Part) -> Images:
        parts = [self._read(path) for path in self._paths(part)]
        pixels = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, *self.shape)
        labels = np.concatenate([labels for _, labels in parts])
        return Images.all(torch.from_numpy(pixels), torch.from_numpy(labels), self.class_names())

    def class_names(self) -> tuple[str, ...]:
        return self.classes

    def _read(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        data = read_bytes(path, self)
        pixels, labels = self._binary(path, data) if path.suffix == ".bin" else self._python(path, data)
        return pixels, check_labels(torch.from_numpy(labels.astype(np.int64)), len(self.class_names()), path).numpy()

    def _binary(self, path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
        record = self.label_bytes + PIXELS
        if not data or len(data) % record:
            raise ValueError(
                f"{path} is damaged: {len(data)} bytes are no whole number of images of {record} bytes; get it again"
            )
        table = np.frombuffer(data, np.uint8).reshape(-1, record)
        return table[:, self.label_bytes :], table[:, self.label_bytes - 1]

    def _python(self, path: Path, data: bytes) -> tuple[np.ndarray, np.ndarray]:
        try:
            content = load_harmless(data)
        except ValueError as error:
            raise ValueError(f"{path} is damaged or not a CIFAR file, and was not run: {error}") from None
        pixels, labels = (
            (content.get(b"data"), content.get(self.label_key)) if isinstance(content, dict) else (None, None)
        )
        numbers = (
            labels
            if isinstance(labels, list) and all(type(label) is int and abs(label) < 1000 for label in labels)
            else None
        )
        if (
            isinstance(pixels, np.ndarray)
            and numbers is not None
            and pixels.dtype == np.uint8
            and pixels.shape == (len(numbers), PIXELS)
        ):
            return pixels, np.array(numbers, np.int64)
        raise ValueError(
            f"{path} is damaged: it should hold uint8 data of {PIXELS} columns and as many labels; get it again"
        )


class CIFAR100(CIFAR10, name="cifar100"):
    about = "small photographs, 100 classes"
    downloads = (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "md5:03b5dce01913d631647c71ecec9e9cb8",
            unpack=True,
        ),
    )
    digests = {}
    binary = "cifar-100-binary"
    python = "cifar-100-python"
    label_bytes = 2  # coarse, then fine
    label_key = b"fine_labels"

    def files(self, part: Part) -> list[str]:
        return [part]

    def class_names(self) -> tuple[str, ...]:
        names = self.root / self.binary / "fine_label_names.txt"
        words = names.read_text().split() if names.exists() else []
        return tuple(words) if len(words) == 100 else tuple(f"class {i}" for i in range(100))
