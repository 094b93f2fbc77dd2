"""WebDataset shards: tar files of images and labels, decoded batch by batch, for sets that outgrow memory and disk when
decoded."""
# N images  C channels

from __future__ import annotations

import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vixformer.data.dataset import DataSet, Images, Part, Whole
from vixformer.data.folder import ENDINGS, set_apart
from vixformer.data.picture import MOST_BYTES, open_picture
from vixformer.jsonfile import parse_json
from vixformer.notes import note

NAMES = "classes.txt"
LARGE = 128
NEEDED = "a shard is a .tar of files such as 000001.jpg and 000001.cls (or 000001.json with a label)"


@dataclass(frozen=True)
class Entry:
    shard: int
    offset: int
    size: int
    key: str
    label: str


class Shards(DataSet, name="shards"):
    """A folder with train-*.tar and test-*.tar (or val-*.tar). Labels are names, or numbers of the lines of
    classes.txt."""

    about = "WebDataset shards: FOLDER/train-*.tar, and perhaps FOLDER/test-*.tar"
    shape = (3, 0, 0)

    def here(self) -> bool:
        return bool(self.tars)

    @cached_property
    def tars(self) -> list[Path]:
        return sorted(self.root.glob("*.tar")) if self.root.is_dir() else []

    @cached_property
    def entries(self) -> list[Entry]:
        if not self.tars:
            raise ValueError(f"{self.root} has no .tar files: {NEEDED}")
        return [entry for number, tar in enumerate(self.tars) for entry in _entries(number, tar)]

    @cached_property
    def tests(self) -> set[int] | None:
        """Numbers of the shards that test; None where no shard does."""
        for prefix in ("test", "val"):
            if found := {i for i, tar in enumerate(self.tars) if tar.name.startswith(prefix)}:
                return found
        return None

    def classes(self) -> list[str]:
        found = {entry.label for entry in self.entries}
        if all(label.isdecimal() for label in found):
            file = self.root / NAMES
            count = max(int(label) for label in found) + 1
            names = [line.strip() for line in file.read_text().splitlines()] if file.is_file() else []
            if file.is_file() and len(names) < count:
                raise ValueError(f"{file} has {len(names)} names, and the shards have {count} classes")
            return names or [str(i) for i in range(count)]
        return sorted(found)

    def whole(self) -> Whole:
        train, test = self.read("train"), self.read("test")
        if self.tests is not None:
            return Whole(train, test)
        share = f"{len(test):,} of {len(train) + len(test):,} images ({self.test_split:.0%} of each class)"
        return Whole(train, test, f"{self.root} has no test-*.tar: {share} are set apart for testing")

    def read(self, part: Part) -> Images:
        entries, classes = self._of(part), self.classes()
        if not entries:
            raise ValueError(f"{self.root} has no images to {part} on")
        number = {name: i for i, name in enumerate(classes)}
        numbers = all(entry.label.isdecimal() for entry in self.entries)  # of classes, whatever these are called
        labels = [int(entry.label) if numbers else number[entry.label] for entry in entries]
        pixels: Any = Streamed(self.tars, entries, self.size or self._first_size(), 1 if self.gray else 3)
        return Images.all(pixels, torch.tensor(labels), tuple(classes))

    def _of(self, part: Part) -> list[Entry]:
        if self.tests is not None:
            return [entry for entry in self.entries if (entry.shard in self.tests) == (part == "test")]
        chosen: list[Entry] = []
        for label in sorted({entry.label for entry in self.entries}):
            found = {Path(f"{e.shard}-{e.key}"): e for e in self.entries if e.label == label}
            chosen += [found[path] for path in set_apart(list(found), label, self.test_split)[part]]
        return chosen

    def _first_size(self) -> tuple[int, int]:
        image = Streamed(self.tars, self._of("train")[:1], None, 3).picture(0)
        if max(image.size) > LARGE:
            note(
                f"all images are resized to {image.width} x {image.height} pixels, the size of the first one;"
                " --data.resize 64 is faster"
            )
        return image.height, image.width


class Streamed:
    """Pixels of shards, as a tensor of uint8 (N, C, height, width) would give them: `pixels[index]` reads and decodes
    these images, on several threads."""

    def __init__(self, tars: list[Path], entries: list[Entry], size: tuple[int, int] | None, channels: int) -> None:
        self.tars, self.entries, self.size, self.channels = tars, entries, size, channels

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self.entries), self.channels, *(self.size or (0, 0))))

    def __len__(self) -> int:
        return len(self.entries)

    def is_floating_point(self) -> bool:
        return False

    def picture(self, number: int) -> Image.Image:
        entry = self.entries[number]
        shard = self.tars[entry.shard]
        with shard.open("rb") as file:  # none stays open: there may be more shards than a process may open files
            file.seek(entry.offset)
            data = file.read(entry.size)
        return open_picture(data, self.channels, f"{entry.key} in {shard}", self.size)

    def _decoded(self, number: int) -> np.ndarray:
        image = self.picture(number)
        if self.size is not None and image.size != (self.size[1], self.size[0]):
            image = image.resize((self.size[1], self.size[0]), Image.Resampling.BILINEAR)
        return np.asarray(image).reshape(image.height, image.width, self.channels).transpose(2, 0, 1)

    def __getitem__(self, index: Tensor) -> Tensor:
        numbers = index.flatten().tolist()
        with ThreadPoolExecutor(max(1, torch.get_num_threads())) as threads:
            images = list(threads.map(self._decoded, numbers))
        pixels = torch.from_numpy(np.stack(images))
        return pixels if index.dim() else pixels[0]


def _entries(number: int, path: Path) -> list[Entry]:
    """Each image of a shard with its label. Files that belong together have one name up to the first dot."""
    images: dict[str, tuple[int, int]] = {}
    labels: dict[str, str] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                stem, _, ending = name.partition(".")
                key = f"{folder}/{stem}" if folder else stem
                if not member.isfile() or not stem:
                    continue
                if member.size > MOST_BYTES:
                    size, most = member.size / 2**20, MOST_BYTES // 2**20
                    raise ValueError(f"{name} in {path} has {size:,.0f} MiB, and at most {most} are read")
                if f".{ending.lower()}" in ENDINGS:
                    images[key] = member.offset_data, member.size
                elif ending in ("cls", "json") and (file := tar.extractfile(member)) is not None:
                    labels[key] = _label(file.read, ending, f"{name} in {path}")
    except (OSError, tarfile.TarError) as error:
        raise ValueError(f"{path} is no tar file that can be read, or is cut short: {error}") from None
    if not images:
        raise ValueError(f"{path} has no images: {NEEDED}")
    for key in images:
        if key not in labels:
            raise ValueError(f"{key} in {path} has no label: {NEEDED}")
    return [Entry(number, offset, size, key, labels[key]) for key, (offset, size) in images.items()]


def _label(read: Callable[[], bytes], ending: str, where: str) -> str:
    text = read()
    if ending == "cls":
        return text.decode(errors="replace").strip()
    values = parse_json(text, where)
    values = values if isinstance(values, dict) else {}
    found = next((values[key] for key in ("label", "cls", "class") if key in values), None)
    if not isinstance(found, str | int):
        raise ValueError(f'{where} has no label: it should be an object such as {{"label": 3}}')
    return str(found)
