"""What a data set is here: uint8 images in one tensor, labels beside them, read from the files the original site gives
out."""
# N images  C channels  M stored images

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from vixformer.registry import Named, unknown

Part = Literal["train", "test"]


@dataclass(frozen=True)
class Images:
    """Image i is `pixels[rows[i]]`: a part of a set, or a set that repeats, shares the pixels and copies nothing."""

    pixels: Tensor
    """uint8 (M, C, height, width); float32 where the images are noise. May be mapped from a file larger than memory, or
    read image by image (`shards.Streamed`)."""
    labels: Tensor
    """int64 (N,); float32 (N, classes) of 0 and 1 where an image may have several labels; float32 (N,) of numbers to
    predict."""
    classes: tuple[str, ...]
    rows: Tensor
    """int64 (N,)."""

    @staticmethod
    def all(pixels: Tensor, labels: Tensor, classes: tuple[str, ...]) -> Images:
        assert len(pixels) == len(labels)
        return Images(pixels, labels, classes, torch.arange(len(labels)))

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Tensor) -> Images:
        return replace(self, labels=self.labels[index], rows=self.rows[index])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width


def are_numbers(labels: Tensor) -> bool:
    """Whether each image has a number to predict, not a class."""
    return labels.dim() == 1 and labels.is_floating_point()


def is_right(guess: Tensor, labels: Tensor) -> Tensor:
    """Whether each guess (N,) is the label, one of several labels, or that with the largest share of soft ones."""
    if labels.dim() == 1:
        return guess == labels
    share = labels.gather(1, guess.unsqueeze(1)).squeeze(1)
    return (share > 0) & (share >= labels.amax(1))


TEST_SPLIT = 0.2
"""Share of each class of a folder that is split off for testing."""
SAMPLED = 2000
"""Images that a data set's digest looks at, spread over it; labels count all."""


@dataclass(frozen=True)
class Whole:
    """Both parts of a data set as they were read, which a run does once."""

    train: Images
    test: Images
    split_off: str = ""
    """Which images test, in a sentence, where nobody put test images apart."""

    @cached_property
    def digest(self) -> str:
        return data_digest(self.train, self.test)


def data_digest(*parts: Images) -> str:
    digest = hashlib.sha256()
    for images in parts:
        index = torch.linspace(0, max(len(images) - 1, 0), min(SAMPLED, len(images))).long()
        digest.update(repr((tuple(images.shape), len(images), images.classes)).encode())
        digest.update(images.labels.numpy().tobytes())
        digest.update(images.pixels[images.rows[index]].numpy().tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Download:
    """One file of the original distribution. `folder` is where it goes, and an archive is unpacked there."""

    url: str
    digest: str
    """md5: or sha256: and the hexadecimal digits."""
    folder: str = "."
    unpack: bool = False

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


class DataSet(Named, family="data set"):
    """Files under `root`, laid out as torchvision leaves them."""

    about: ClassVar[str]
    shape: ClassVar[tuple[int, int, int]]
    """Channels, height, width."""
    counts: ClassVar[dict[Part, int]] = {}
    """Images in each part of the whole set; fewer are a subset."""
    digests: ClassVar[dict[Part, str]] = {}
    """Of the pixels and labels of each part of the whole set, by `content_digest`; where they are known."""
    downloads: ClassVar[tuple[Download, ...]] = ()
    has_targets: ClassVar[bool] = False
    """Whether it has columns of numbers that a model can predict."""
    has_repositories: ClassVar[bool] = False
    """Whether a repository stands after its name and a colon."""

    def __init__(
        self,
        root: Path,
        size: tuple[int, int] | None = None,
        repository: str = "",
        test_split: float = TEST_SPLIT,
        gray: bool = False,
        target: str = "",
    ) -> None:
        """`size` is what images of different sizes are brought to; `repository` is what a name says after its colon. Of
        a folder of images, `test_split` is the share of each class that tests, where no images were put apart for that;
        `gray` is how they are read. Of a table, `target` is the column with the number to predict."""
        self.root, self.size, self.repository, self.test_split, self.gray = root, size, repository, test_split, gray
        self.target = target

    def here(self) -> bool:
        """Whether its files are under the root; nothing is read."""
        raise NotImplementedError

    def read(self, part: Part) -> Images:
        raise NotImplementedError

    def whole(self) -> Whole:
        return Whole(self.read("train"), self.read("test"))

    def missing(self, path: Path) -> ValueError:
        return ValueError(
            f'{path} is not there: get it with "vix data get {self.name}", or set VIX_DATA to the folder that has it'
        )


def open_data(
    name: str,
    root: str | Path | None = None,
    size: tuple[int, int] | None = None,
    *,
    test_split: float = TEST_SPLIT,
    gray: bool = False,
    target: str = "",
) -> DataSet:
    """The data set of this name; nothing is read yet."""
    word, _, repository = name.partition(":")
    kind: type[DataSet] = DataSet.member(word)
    if repository and not kind.has_repositories:
        raise ValueError(unknown("data set", name, DataSet.members))
    if target and not kind.has_targets:
        raise ValueError(f"data.target is a column of a CSV or Parquet file, and {name} has none: give --data FILE.csv")
    return kind(data_root(root), size, repository, test_split, gray, target)


def content_digest(images: Images) -> str:
    """Of all pixels and labels, whatever files they came from."""
    return hashlib.sha256(images.pixels.numpy().tobytes() + images.labels.numpy().tobytes()).hexdigest()[:32]


def data_root(root: str | Path | None = None) -> Path:
    """`root`, else $VIX_DATA, else ~/.cache/vix/data."""
    # which stays ~ where there is no home
    return Path(os.path.expanduser(root or os.environ.get("VIX_DATA") or "~/.cache/vix/data"))


def read_bytes(path: Path, dataset: DataSet) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise dataset.missing(path) from None
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None


def check_labels(labels: Tensor, classes: int, path: Path) -> Tensor:
    labels = labels.to(torch.int64)
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        bad = labels[(labels < 0) | (labels >= classes)][0].item()
        raise ValueError(f"{path} is damaged: it has the label {bad}, and labels go from 0 to {classes - 1}")
    return labels
