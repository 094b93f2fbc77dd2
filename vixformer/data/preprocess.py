"""How a picture becomes what a model was trained on, and what its classes are called: kept beside the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from PIL import Image
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from vixformer.data.augment import normalize, resize
from vixformer.data.dataset import Images
from vixformer.data.loader import Loader
from vixformer.jsonfile import read_json
from vixformer.registry import checked, later, stated
from vixformer.room import MOST_PIXELS
from vixformer.writing import write_json

if TYPE_CHECKING:
    from vixformer.backbones.backbone import Backbone

PREPROCESSING_FILE = "preprocessing.json"
DARK = 0.25
"""Brightness up to which the ground of a drawing is dark; photographs have borders of every brightness."""
COLORFUL = 40
"""Mean difference of the largest and the smallest channel, of 255: white paper in warm light has less."""
SAMPLED = 500
Share = Annotated[float, Field(ge=0, le=1)]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    classes: Annotated[tuple[str, ...], Field(min_length=1)]
    channels: PositiveInt
    stored: tuple[PositiveInt, PositiveInt]
    """Height and width of the images of the data set."""
    size: tuple[PositiveInt, PositiveInt]
    """Height and width that the model gets."""
    mean: tuple[Annotated[float, Field(ge=-100, le=100)], ...]
    std: tuple[Annotated[float, Field(ge=1e-6, le=100)], ...]
    border: tuple[Share, Share] | None = None
    """Brightness of the borders of the training images, that nine in ten of them lie between; None if the model does
    not say."""
    several: bool = later(False)
    """Whether an image may have several labels, so that each has a probability of its own."""
    target: tuple[Number, PositiveFloat] | None = later(None)
    """Where the model predicts a number: what it answers times the second, plus the first."""

    @staticmethod
    def of(loader: Loader) -> Preprocessing:
        channels, height, width = loader.images.shape
        return Preprocessing(
            classes=loader.images.classes, channels=channels, stored=(height, width), size=loader.size,
            mean=loader.mean, std=loader.std,
            border=borders(loader.images),
            several=loader.images.labels.dim() > 1,
            target=loader.target,
        )  # fmt: skip

    @staticmethod
    def for_model(
        model: Backbone,
        classes: Sequence[str],
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        stored: tuple[int, int] | None = None,
    ) -> Preprocessing:
        """Of a model that was not trained by a run: what its outputs are called, and the mean and standard deviation of
        each channel, from 0 to 1, that its images were normalized with (left out: 0 and 1, pixels as they are).
        `stored` is the height and width of the images before they are resized for the model."""
        channels, size = model.in_chans, model.img_size
        if model.num_classes != len(classes):
            raise ValueError(f"classes must name the {model.num_classes} outputs of the model, not {len(classes)}")
        values = {
            "classes": tuple(classes), "channels": channels, "stored": stored or size, "size": size,
            "mean": (0.0,) * channels if mean is None else tuple(mean),
            "std": (1.0,) * channels if std is None else tuple(std),
        }  # fmt: skip
        return checked(Preprocessing, values, "Preprocessing.for_model").consistent("Preprocessing.for_model")

    def consistent(self, where: str) -> Preprocessing:
        """Itself, if its numbers fit together. `where` begins the error message."""
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) != self.channels:
                raise ValueError(
                    f"{where}: {name} should have a number for each of {self.channels} channels, not {len(numbers)}"
                )
        for name, (height, width) in (("stored", self.stored), ("size", self.size)):
            if height * width > MOST_PIXELS:
                raise ValueError(f"{where}: {name} is {height} x {width}, and at most {MOST_PIXELS:,} pixels are read")
        return self

    @property
    def ground(self) -> str | None:
        """dark or light, of what the model knows; None of photographs, whose borders are of every brightness."""
        if self.border is None:
            return None
        return "dark" if self.border[1] <= DARK else "light" if self.border[0] >= 1 - DARK else None

    def reversed(self, picture: Image.Image) -> bool:
        """Whether the model knows drawings that are light on dark and this one is dark on light, or the other way
        round."""
        return self.ground is not None and (float(_border(self.pixels(picture)[None])) > 0.5) == (self.ground == "dark")

    def colored(self, picture: Image.Image) -> bool:
        """Whether the model knows gray images only, and this one is colorful."""
        if self.channels != 1:
            return False
        parts = np.asarray(picture.convert("RGB").resize((32, 32)), np.float32)
        return float(np.ptp(parts, axis=2).mean()) > COLORFUL

    def pixels(self, picture: Image.Image) -> Tensor:
        """uint8 (channels, height, width) as the data set stores images. The whole picture is used, whatever its
        proportions."""
        height, width = self.stored
        mode = "L" if self.channels == 1 else "RGB"
        picture = picture if picture.mode == mode else picture.convert(mode)
        if picture.size != (width, height):
            picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        values = np.array(picture)
        return torch.from_numpy(values[None] if self.channels == 1 else values.transpose(2, 0, 1).copy())

    def __call__(self, pictures: Sequence[Image.Image]) -> Tensor:
        """A batch for the model."""
        return self.batch(torch.stack([self.pixels(picture) for picture in pictures]))

    def batch(self, pixels: Tensor) -> Tensor:
        return resize(normalize(pixels, self.mean, self.std), self.size)

    def save(self, folder: str | Path) -> None:
        write_json(Path(folder) / PREPROCESSING_FILE, stated(self))

    @staticmethod
    def load(folder: str | Path) -> Preprocessing:
        path = Path(folder) / PREPROCESSING_FILE
        if not path.exists():
            raise ValueError(
                f"{path} is missing, and it says which classes and images the model knows: copy it from the run, or"
                f' write it with vix.Preprocessing.for_model(model, classes).save("{folder}")'
            )
        values = read_json(path)
        if not isinstance(values, dict):
            raise ValueError(
                f"{path} is damaged, copy it again: it should be an object with classes, sizes, mean and std"
            )
        return checked(Preprocessing, values, str(path)).consistent(str(path))


def borders(images: Images) -> tuple[float, float] | None:
    """`border` of a data set; None of noise."""
    if images.pixels.is_floating_point():
        return None
    index = torch.linspace(0, len(images) - 1, min(SAMPLED, len(images))).long()
    low, high = torch.quantile(_border(images.pixels[images.rows[index]]), torch.tensor([0.05, 0.95])).tolist()
    return round(low, 3), round(high, 3)


def _border(pixels: Tensor) -> Tensor:
    """Mean brightness of the outermost pixels of uint8 images (N, channels, height, width), in 0..1."""
    sides = (pixels[..., 0, :], pixels[..., -1, :], pixels[..., :, 0], pixels[..., :, -1])
    return torch.cat([side.float() for side in sides], -1).mean((1, 2)) / 255
