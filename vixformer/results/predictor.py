"""A trained model and what it needs to be asked: pictures in, classes or numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from vixformer import hub
from vixformer.backbones.backbone import BEST, CONFIG_FILE, Backbone, from_pretrained
from vixformer.data.preprocess import Preprocessing
from vixformer.jsonfile import Values


@dataclass(frozen=True)
class Guess:
    label: str
    """Of a class, or what its number is called."""
    probability: float = 1.0
    number: float | None = None
    """Where the model predicts a number."""

    def __str__(self) -> str:
        return f"{self.label} {self.probability:.1%}" if self.number is None else f"{self.label} {self.number:.4g}"

    def to_dict(self) -> Values:
        value = {"probability": round(self.probability, 6)} if self.number is None else {"number": self.number}
        return {"label": self.label, **value}


@dataclass(frozen=True)
class Predictor:
    model: Backbone
    preprocessing: Preprocessing

    @staticmethod
    def load(folder: str | Path) -> Predictor:
        """Of a run, its best epoch; of a folder that `save_pretrained` and `Preprocessing.save` wrote; or of the hub,
        "owner/name"."""
        folder = model_folder(folder)
        model, preprocessing = from_pretrained(folder), Preprocessing.load(folder)
        outputs, classes = model.num_classes, len(preprocessing.classes)
        if outputs < classes:
            raise ValueError(
                f"the model in {folder} has {outputs} outputs and its preprocessing.json names {classes} classes: copy"
                " both again"
            )
        wanted, made = (model.in_chans, *model.img_size), (preprocessing.channels, *preprocessing.size)
        if wanted != made:
            raise ValueError(
                f"the model in {folder} expects images of shape {wanted} and its preprocessing.json makes {made}: copy"
                " both again"
            )
        return Predictor(model, preprocessing)

    @torch.inference_mode()
    def logits(self, images: Tensor) -> Tensor:
        logits = self.model(images.to(next(self.model.parameters()).device)).float().cpu()
        if not logits.isfinite().all():
            raise ValueError(
                "the model answers with numbers that are not finite: its weights are damaged, copy them again"
            )
        return logits

    def __call__(self, pictures: Sequence[Image.Image], top: int = 5) -> list[tuple[Guess, ...]]:
        return self.guesses(self.logits(self.preprocessing(pictures)), top)

    def guesses(self, logits: Tensor, top: int = 5) -> list[tuple[Guess, ...]]:
        classes = self.preprocessing.classes  # a model may have more outputs than its data had classes
        if (target := self.preprocessing.target) is not None:
            return [(Guess(classes[0], number=target[0] + target[1] * row[0]),) for row in logits.tolist()]
        shares = logits.sigmoid() if self.preprocessing.several else logits.softmax(-1)
        values, order = shares[..., : len(classes)].topk(min(top, len(classes)))
        rows = zip(order.tolist(), values.tolist(), strict=True)
        return [tuple(Guess(classes[i], p) for i, p in zip(row, shares, strict=True)) for row, shares in rows]


def model_folder(folder: str | Path) -> Path:
    folder = hub.here(folder)
    for place in (folder / BEST, folder):
        if (place / CONFIG_FILE).exists():
            return place
    raise ValueError(f"{folder} has no model: give a run folder, or a folder with {CONFIG_FILE} and its weights")
