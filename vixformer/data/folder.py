"""Image files in class folders: Tiny ImageNet, and any folder of one's own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch

from vixformer.data.cache import decode, decoded
from vixformer.data.dataset import DataSet, Download, Images, Part
from vixformer.notes import note

LARGE, FAST = 128, 64
"""Sides in pixels: a longer side than LARGE gets a note, which suggests FAST."""
LAID_OUT = "with ROOT/train/CLASS/*.jpg and ROOT/test/CLASS/*.jpg"
ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class TinyImageNet(DataSet, name="tiny-imagenet"):
    """Its test images have no labels, so its validation part is our test part. Classes are those of wnids.txt, in its order."""

    about = "photographs, 200 classes"
    shape = (3, 64, 64)
    counts = {"train": 100_000, "test": 10_000}
    downloads = (Download("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de", unpack=True),)

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
                raise ValueError(f"{self.home / 'train' / wnid} has no images, and wnids.txt lists it: get tiny-imagenet again")
            files += [(path, wnid) for path in found]
        return files

    def _val(self, number: dict[str, int]) -> list[tuple[Path, str]]:
        annotations = self.home / "val" / "val_annotations.txt"
        files = []
        for line in self._lines(annotations):
            name, wnid, *_ = [*line.split("\t"), ""]
            if wnid not in number or "/" in name or not name:
                raise ValueError(f'{annotations} is damaged: "{line[:60]}" does not name an image and a class of wnids.txt')
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
    """`--data.root` has the folders `train` and `test` (or `val`), of class folders of images. All images are brought to one size."""

    about = "your own images: ROOT/train/CLASS/*.jpg and ROOT/test/CLASS/*.jpg"
    shape = (3, 0, 0)

    def here(self) -> bool:
        return (self.root / "train").is_dir()

    def read(self, part: Part) -> Images:
        folder = self.root / "train"
        classes = self._classes(folder)
        if part == "test":
            folder = next((self.root / name for name in ("test", "val") if (self.root / name).is_dir()), self.root / "test")
            others = self._classes(folder)
            if not set(others) <= set(classes):
                raise ValueError(f"{folder} has the class {sorted(set(others) - set(classes))[0]}, which {self.root / 'train'} has not")
        files = [(path, i) for i, name in enumerate(classes) for path in self._images(folder / name, needed=part == "train")]
        if not files:
            raise ValueError(f"{folder} has no images in its class folders")
        size = self.size or self._size_of_the_first(classes)
        pixels = decoded([path for path, _ in files], (size[0], size[1]))
        return Images.all(pixels, torch.tensor([label for _, label in files]), tuple(classes))

    def _size_of_the_first(self, classes: list[str]) -> tuple[int, int]:
        """Size of the first training image, which test images get too."""
        _, height, width = decode(self._images(self.root / "train" / classes[0], needed=True)[0], None).shape
        if max(height, width) > LARGE:
            note(
                f"all images are resized to {width} x {height} pixels, the size of the first one; "
                f"training at that size is slow: --data.resize {FAST} is faster"
            )
        return height, width

    def _classes(self, folder: Path) -> list[str]:
        if not self.root.is_dir():
            raise ValueError(f"there is no folder {self.root}: give --data.root ROOT, {LAID_OUT}")
        if not folder.is_dir():
            classes = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir() and list_images(entry.glob("*")))
            move = f"; move the class folders, such as {classes[0]}, into {folder}" if classes else ""
            raise ValueError(f"{folder} is not there: a folder data set is a ROOT {LAID_OUT}{move}")
        classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
        if not classes:
            raise ValueError(f"{folder} has no class folders: it should hold a folder of images for every class")
        return classes

    def _images(self, folder: Path, needed: bool) -> list[Path]:
        found = list_images(folder.glob("*")) if folder.is_dir() else []
        if needed and not found:
            raise ValueError(f"{folder} is a class folder without images ({', '.join(sorted(ENDINGS))}): put some in it or remove it")
        return found


def list_images(paths: Iterable[Path]) -> list[Path]:
    """Image files, sorted, without hidden files such as the ._name.jpg of macOS."""
    found = sorted(path for path in paths if path.suffix.lower() in ENDINGS and not path.name.startswith("."))
    for path in found:
        if path.is_symlink() and not path.exists():
            raise ValueError(f"{path} is a broken link: restore its target, or remove it")
    return [path for path in found if path.is_file()]
