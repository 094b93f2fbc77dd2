"""A CSV or Parquet file that lists image files and their labels."""

from __future__ import annotations

import csv
import importlib
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from vixformer.data.dataset import Images, Part, Whole
from vixformer.data.folder import Folder, set_apart
from vixformer.jsonfile import Values
from vixformer.notes import note
from vixformer.registry import unknown

ENDINGS, BETWEEN = (".csv", ".parquet"), ";"
PATH = ("path", "file", "filename", "file_name", "image", "image_path")
MOST = 1e30
"""Squares of larger numbers overflow."""
LABEL = ("label", "class", "target", "category")
SPLIT = ("split", "part", "subset", "set")
TRAIN, TEST, VALIDATION = ("train", "training"), ("test", "testing"), ("val", "valid", "validation")


class Table(Folder, name="table"):
    """`--data FILE.csv` has a line per image: its path, relative to the file, its label and, if you like, its part
    (train or test)."""

    about = "a CSV or Parquet file with the columns path and label, and perhaps split"
    has_targets = True

    def here(self) -> bool:
        return self.root.is_file()

    @property
    def home(self) -> Path:
        return self.root.parent

    @property
    def tested(self) -> Path | None:
        return self.root if self._parts is not None else None

    def whole(self) -> Whole:
        train, test = self.read("train"), self.read("test")
        if self._parts is not None:
            return Whole(train, test)
        of = "" if self.target else " of each class"
        share = f"{len(test):,} of {len(train) + len(test):,} images ({self.test_split:.0%}{of})"
        return Whole(
            train, test, f"{self.root} names no test images: {share} are set apart for testing, always the same ones"
        )

    def read(self, part: Part) -> Images:
        images = super().read(part)
        if self.target:
            return replace(images, labels=torch.tensor([self._numbers[path] for path, _ in self.files(part)]))
        if not self.several:
            return images
        number = {name: i for i, name in enumerate(images.classes)}
        labels = torch.zeros(len(images), len(number))
        for row, words in enumerate(self._words(part)):
            labels[row, [number[word] for word in words]] = 1
        return replace(images, labels=labels)

    @cached_property
    def several(self) -> bool:
        """Whether an image has several labels: cat;dog."""
        return not self.target and any(BETWEEN in label for _, label in self._files)

    def _words(self, part: Part) -> list[list[str]]:
        of = dict(self._files)
        return [_split(of[path]) for path, _ in self.files(part)]

    @cached_property
    def _numbers(self) -> dict[Path, float]:
        """What a model predicts of each image."""
        found = {}
        for number, (path, word) in enumerate(self._files, 2):
            try:
                found[path] = float(word)
            except ValueError:
                found[path] = math.nan
            if not abs(found[path]) <= MOST:
                raise ValueError(
                    f"{self.root}, line {number}: {self.target} must be a number up to {MOST:g}, not {word[:60]}; to"
                    " predict classes, leave out data.target"
                )
        return found

    def classes(self) -> list[str]:
        if self.target:
            return [self.target]
        found = {word for _, label in self._files for word in _split(label)}
        return sorted(found, key=lambda label: (not label.isdecimal(), int(label) if label.isdecimal() else 0, label))

    def files(self, part: Part) -> list[tuple[Path, int]]:
        number = {name: i for i, name in enumerate(self.classes())}

        def of(label: str) -> int:
            return 0 if self.target else number[_split(label)[0]]

        if self._parts is not None:
            pairs = zip(self._files, self._parts, strict=True)
            return [(path, of(label)) for (path, label), where in pairs if where == part]
        if self.several or self.target:
            paths = {path: of(label) for path, label in self._files}
            return [(path, paths[path]) for path in set_apart(list(paths), "", self.test_split)[part]]
        chosen = []
        for name in number:
            found = [path for path, label in self._files if label == name]
            chosen += [(path, number[name]) for path in set_apart(found, name, self.test_split)[part]]
        return chosen

    @cached_property
    def _columns(self) -> dict[str, str]:
        """What the columns are called here."""
        names = list(self._rows[0])
        found = {}
        for what, known in (("path", PATH), ("label", LABEL), ("split", SPLIT)):
            own = next((name for word in known for name in names if name.strip().lower() == word), None)
            if what == "label" and self.target:
                if self.target not in names:
                    raise ValueError(unknown(f"column of {self.root}", self.target, names))
                found[what] = self.target
            elif own is not None:
                found[what] = own
            elif what != "split":
                raise ValueError(
                    f"{self.root} has no column {what}: it has {', '.join(names)}; call one of them {what} (or"
                    f" {', '.join(known[1:])})"
                )
        return found

    @cached_property
    def _rows(self) -> Sequence[Values]:
        if not self.root.is_file():
            raise ValueError(f"there is no file {self.root}: give --data a CSV or Parquet file, or a folder")
        rows = _parquet(self.root) if self.root.suffix.lower() == ".parquet" else _csv(self.root)
        if not rows:
            raise ValueError(f"{self.root} lists no images: it needs a line of titles, such as path,label, and others")
        return rows

    @cached_property
    def _files(self) -> list[tuple[Path, str]]:
        path, label = self._columns["path"], self._columns["label"]
        files = []
        for number, row in enumerate(self._rows, 2):  # the first line has the titles
            for title in (path, label):
                if row[title] is None or not str(row[title]).strip(f" {BETWEEN}"):
                    raise ValueError(f"{self.root}, line {number}, has no {title}")
            file = self.root.parent / str(row[path]).strip()
            if not file.is_file():
                raise ValueError(f"{self.root}, line {number}: there is no image {file}")
            files.append((file, str(row[label]).strip()))
        return files

    @cached_property
    def _parts(self) -> list[Part] | None:
        """Of each image; None where the file does not say it."""
        if "split" not in self._columns:
            return None
        words = [str(row[self._columns["split"]]).strip().lower() for row in self._rows]
        for number, word in enumerate(words, 2):
            if word not in TRAIN + TEST + VALIDATION:
                raise ValueError(
                    f"{self.root}, line {number}: {self._columns['split']} must be train, test or val, not {word[:60]}"
                )
        testing = TEST if set(words) & set(TEST) else VALIDATION
        if not set(words) & set(testing):
            return None
        if testing == TEST and set(words) & set(VALIDATION):
            note(f"images of {self.root} whose part is val train too: data.val_fraction says what validates")
        return ["test" if word in testing else "train" for word in words]


def is_table(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS


def kind_of(path: Path) -> str:
    """The data set that reads this file or folder of yours."""
    if is_table(path):
        return Table.name
    return "shards" if any(path.glob("*.tar")) else Folder.name


def _split(label: str) -> list[str]:
    return [word for part in label.split(BETWEEN) if (word := part.strip())]


def _csv(path: Path) -> list[Values]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text), restkey="", restval=""))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    for number, row in enumerate(rows, 2):
        if isinstance(row.get(""), list):
            raise ValueError(
                f"{path}, line {number}, has more columns than the first line has titles: put values with commas in"
                " quotation marks"
            )
    return [dict(row) for row in rows]


def _parquet(path: Path) -> list[Values]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ValueError(f"{path}: Parquet files need pyarrow: pip install pyarrow, or write CSV") from None
    try:
        return parquet.read_table(path).to_pylist()
    except Exception as error:
        raise ValueError(f"cannot read {path}: {error}") from None
