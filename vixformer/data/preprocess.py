"""How a picture becomes what a model was trained on, and what its classes are called: kept beside the weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vixformer.data.augment import normalise, resize
from vixformer.data.loader import Loader
from vixformer.registry import checked
from vixformer.writing import write_json

PREPROCESSING_FILE = "preprocessing.json"


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    classes: tuple[str, ...]
    channels: int
    stored: tuple[int, int]
    """Height and width of the images of the data set."""
    size: tuple[int, int]
    """Height and width that the model gets."""
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @staticmethod
    def of(loader: Loader) -> Preprocessing:
        channels, height, width = loader.images.shape
        return Preprocessing(
            classes=loader.images.classes, channels=channels, stored=(height, width), size=loader.size, mean=loader.mean, std=loader.std
        )

    def pixels(self, picture: Image.Image) -> Tensor:
        """uint8 (channels, height, width) as the data set stores images. The whole picture is used, whatever its proportions."""
        height, width = self.stored
        picture = picture.convert("L" if self.channels == 1 else "RGB")
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        values = np.array(picture)
        return torch.from_numpy(values[None] if self.channels == 1 else values.transpose(2, 0, 1).copy())

    def __call__(self, pictures: Sequence[Image.Image]) -> Tensor:
        """A batch for the model."""
        return self.batch(torch.stack([self.pixels(picture) for picture in pictures]))

    def batch(self, pixels: Tensor) -> Tensor:
        return resize(normalise(pixels, self.mean, self.std), self.size)

    def save(self, folder: Path) -> None:
        write_json(folder / PREPROCESSING_FILE, asdict(self))

    @staticmethod
    def load(folder: Path) -> Preprocessing:
        path = folder / PREPROCESSING_FILE
        try:
            values = json.loads(path.read_text())
        except FileNotFoundError:
            raise ValueError(f"{path} is missing: without it nobody knows what pictures the model expects; train it again") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is damaged, copy it again: {error}") from None
        return checked(Preprocessing, values, str(path))
