"""A Hugging Face data set by name, `hub:owner/name`, when the package `datasets` is installed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from PIL import Image

from vixformer.data.dataset import DataSet, Images, Part
from vixformer.data.picture import plain


class Hub(DataSet, name="hub"):
    """The first column of images and the first of class labels; all images are brought to one size."""

    about = "a Hugging Face data set: hub:owner/name"
    shape = (3, 0, 0)
    has_repositories = True

    def here(self) -> bool:
        return False

    def read(self, part: Part) -> Images:
        try:
            datasets = importlib.import_module("datasets")
        except ImportError:
            raise ValueError("data sets of the hub need the package datasets: pip install datasets") from None
        if not self.repository:
            raise ValueError("which data set of the hub? write hub:owner/name")
        names = datasets.get_dataset_split_names(self.repository)
        wanted = ["train"] if part == "train" else ["test", "validation", "valid", "val"]
        split = next((name for name in wanted if name in names), None)
        if split is None:
            raise ValueError(f"{self.repository} has no {part} split; it has {', '.join(names)}")
        return from_table(datasets.load_dataset(self.repository, split=split), self.size)


def from_table(table: Any, size: tuple[int, int] | None) -> Images:
    """A `datasets.Dataset` with a column of images and one of class labels."""
    kinds = {name: type(feature).__name__ for name, feature in table.features.items()}
    image = next((name for name, kind in kinds.items() if kind == "Image"), None)
    label = next((name for name, kind in kinds.items() if kind == "ClassLabel"), None)
    if image is None or label is None:
        raise ValueError(f"the data set needs a column of images and one of class labels; it has {kinds}")
    pictures = [plain(row, 3) for row in table[image]]
    height, width = size or (pictures[0].height, pictures[0].width)
    pixels = np.stack(
        [
            np.asarray(p if p.size == (width, height) else p.resize((width, height), Image.Resampling.BILINEAR))
            for p in pictures
        ]
    )
    return Images.all(
        torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(),
        torch.tensor(table[label]),
        tuple(table.features[label].names),
    )
