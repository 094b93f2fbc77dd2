"""Image files in class folders: Tiny ImageNet, and any other folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from vixformer.data.cache import decode, decoded
from vixformer.data.dataset import DataSet, Download, Images, Part, Whole
from vixformer.notes import note

LARGE, FAST = 128, 64
"""Sides in pixels: a longer side than LARGE gets a note, which suggests FAST."""
LAID_OUT = "with FOLDER/CLASS/*.jpg, or FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg"
ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class TinyImageNet(DataSet, name="tiny-imagenet"):
    """Its test images have no labels, so its validation part is our test part. Classes are those of wnids.txt, in its
    order."""

    about = "photographs, 200 classes"
    shape = (3, 64, 64)
    counts = {"train": 100_000, "test": 10_000}
    downloads = (
        Download(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de", unpack=True
        ),
    )

    @property
    def home(self) -> Path:
        return self.root / "tiny-imagenet-200"

    def here(self) -> bool:
        return (self.home / "wnids.txt").exists() and (self.home / "val" / "val_annotations.txt").exists()

    def read(self, part: Part) -> Images:
        wnids = self._lines(self.home / "wnids.txt")
        number = {wnid: i for i, wnid in enumerate(wnids)}
        files = self._train(wnids) if part == "train" else self._val(number)
        if not files:
            raise ValueError(f"{self.home} has no images to {part} on: get it again")
        for path, _ in files:
            if not path.exists():
                raise ValueError(f"{path} is missing: get tiny-imagenet again")
        pixels = decoded([path for path, _ in files], self.shape[1:])
        return Images.all(pixels, torch.tensor([number[wnid] for _, wnid in files]), tuple(self._names(wnids)))

    def _train(self, wnids: list[str]) -> list[tuple[Path, str]]:
        files = []
        for wnid in wnids:
            found = sorted((self.home / "train" / wnid / "images").glob("*.JPEG"))
            if not found:
                raise ValueError(
                    f"{self.home / 'train' / wnid} has no images, and wnids.txt lists it: get tiny-imagenet again"
                )
            files += [(path, wnid) for path in found]
        return files

    def _val(self, number: dict[str, int]) -> list[tuple[Path, str]]:
        annotations = self.home / "val" / "val_annotations.txt"
        files = []
        for line in self._lines(annotations):
            name, wnid, *_ = [*line.split("\t"), ""]
            if wnid not in number or "/" in name or not name:
                raise ValueError(
                    f'{annotations} is damaged: "{line[:60]}" does not name an image and a class of wnids.txt'
                )
            files.append((self.home / "val" / "images" / name, wnid))
        return files

    def _names(self, wnids: list[str]) -> list[str]:
        words = self.home / "words.txt"
        table: dict[str, str] = {}
        for line in self._lines(words) if words.exists() else []:
            wnid, _, name = line.partition("\t")
            table[wnid] = name
        return [table.get(wnid, wnid).partition(",")[0] for wnid in wnids]

    def _lines(self, path: Path) -> list[str]:
        try:
            return [line for line in path.read_text().splitlines() if line.strip()]
        except FileNotFoundError:
            raise self.missing(path) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is damaged, get it again: {error}") from None


class Folder(DataSet, name="folder"):
    """`--data FOLDER` has one folder of images per class, or such folders in `train` and in `test` (or `val`). Without
    `test`, some images of each class are split off. All images are brought to one size."""

    about = "your own images: FOLDER/CLASS/*.jpg, or FOLDER/train/CLASS/*.jpg and FOLDER/test/CLASS/*.jpg"
    shape = (3, 0, 0)

    def here(self) -> bool:
        return (self.root / "train").is_dir()

    @property
    def home(self) -> Path:
        """Where the class folders are; a folder `train` that has images in it is itself a class."""
        train = self.root / "train"
        return train if train.is_dir() and not list_images(train.glob("*")) else self.root

    @property
    def tested(self) -> Path | None:
        """Where the test images are, if somebody put them apart."""
        found = (self.root / name for name in ("test", "val") if (self.root / name).is_dir())
        return next(found, None) if self.home != self.root else None

    def whole(self) -> Whole:
        train, test = self.read("train"), self.read("test")
        if self.tested is not None:
            return Whole(train, test)
        share = f"{len(test):,} of {len(train) + len(test):,} images ({self.test_split:.0%} of each class)"
        return Whole(
            train, test, f"{self.root} has no test folder: {share} are set apart for testing, always the same ones"
        )

    def read(self, part: Part) -> Images:
        files, classes = self.files(part), self.classes()
        if not files:
            raise ValueError(f"{self.tested or self.home} has no images in its class folders")
        size = self.size or self._size_of_the_first()
        pixels = decoded([path for path, _ in files], (size[0], size[1]), 1 if self.gray else 3)
        return Images.all(pixels, torch.tensor([label for _, label in files]), tuple(classes))

    def files(self, part: Part) -> list[tuple[Path, int]]:
        """Image files and the numbers of their classes."""
        classes = self.classes()
        if self.tested is None:
            return [(path, i) for i, name in enumerate(classes) for path in self._split(self.home / name)[part]]
        if part == "test":
            others = _class_folders(self.tested)
            if not set(others) <= set(classes):
                raise ValueError(
                    f"{self.tested} has the class {sorted(set(others) - set(classes))[0]}, which {self.home} has not"
                )
        folder = self.home if part == "train" else self.tested
        return [(path, i) for i, name in enumerate(classes) for path in _images(folder / name, needed=part == "train")]

    def unused(self) -> list[str]:
        """Folders of images that lie beside `train`."""
        others = _class_folders(self.root) if self.home != self.root and self.root.is_dir() else []
        parts = ("train", "test", "val")
        return [name for name in others if name not in parts and list_images((self.root / name).glob("*"))]

    def classes(self) -> list[str]:
        if not self.root.is_dir():
            raise ValueError(f"there is no folder {self.root}: give --data FOLDER, {LAID_OUT}")
        found = _class_folders(self.home)
        if len(found) < 2:
            raise ValueError(
                f"{self.home} has one class folder, {found[0]}, and a classifier needs at least two classes: add a"
                " folder of images for each"
            )
        return found

    def _split(self, folder: Path) -> dict[Part, list[Path]]:
        return set_apart(_images(folder, needed=True), folder.name, self.test_split)

    def _size_of_the_first(self) -> tuple[int, int]:
        """Size of the first training image, which test images get too."""
        _, height, width = decode(self.files("train")[0][0], None).shape
        if max(height, width) > LARGE:
            note(
                f"all images are resized to {width} x {height} pixels, the size of the first one; "
                f"training at that size is slow: --data.resize {FAST} is faster"
            )
        return height, width


def set_apart(files: Sequence[Path], name: str, share: float) -> dict[Part, list[Path]]:
    """A share of the files of the class `name` tests. A digest of each file's name decides, so that the split is the
    same on every machine, and images that are added later move few."""
    count = min(round(share * len(files)) or 1, len(files) - 1)  # one at least trains
    ranked = sorted(files, key=lambda path: hashlib.sha256(f"{name}/{path.name}".encode()).digest())
    return {"train": sorted(ranked[count:]), "test": sorted(ranked[:count])}


def _class_folders(folder: Path) -> list[str]:
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise ValueError(f"{folder} has no class folders: it should hold a folder of images for every class")
    return classes


def _images(folder: Path, needed: bool) -> list[Path]:
    found = list_images(folder.glob("*")) if folder.is_dir() else []
    if needed and not found:
        raise ValueError(
            f"{folder} is a class folder without images ({', '.join(sorted(ENDINGS))}): put some in it or remove it"
        )
    return found


def list_images(paths: Iterable[Path]) -> list[Path]:
    """Image files, sorted, without hidden files such as the ._name.jpg of macOS."""
    found = sorted(path for path in paths if path.suffix.lower() in ENDINGS and not path.name.startswith("."))
    for path in found:
        if path.is_symlink() and not path.exists():
            raise ValueError(f"{path} is a broken link: restore its target, or remove it")
    return [path for path in found if path.is_file()]
