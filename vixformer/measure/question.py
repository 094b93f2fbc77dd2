"""What `vix advise` is asked: the images or the model, how it is used, and what it may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from pydantic import PositiveFloat, PositiveInt

from vixformer.attention.project.projection import mechanism_of
from vixformer.backbones.backbone import BEST, CONFIG_FILE, read_config
from vixformer.jsonfile import Values
from vixformer.measure.atlas import Start
from vixformer.models import create_model


@dataclass(frozen=True, kw_only=True)
class Question:
    model: str | None = None
    """Model to measure, or a run, timm:NAME or hf:FOLDER that gives the sizes. Left out: a ViT with the sizes below."""
    image: PositiveInt = 224
    """Side of the images, in pixels."""
    patch: PositiveInt = 16
    """Side of a patch, in pixels."""
    tokens: PositiveInt | None = None
    """Number of patches per image, instead of --image; 1024 means 32 x 32 patches."""
    batch: PositiveInt = 8
    """Number of images in a batch."""
    dim: PositiveInt = 192
    """Width of the tokens."""
    depth: PositiveInt = 12
    """Number of blocks."""
    heads: PositiveInt = 3
    """Number of attention heads."""
    train: bool = False
    """Time a training step instead of inference."""
    runtime: Literal["eager", "compiled", "onnxruntime"] = "eager"
    """What runs the model: PyTorch (eager), torch.compile or onnxruntime."""
    trained: bool = False
    """You would convert a trained model with exact attention."""
    worth: PositiveFloat = 1.0
    """Points of accuracy that you would give up for half the time."""
    budget_ms: PositiveFloat | None = None
    """Milliseconds that a batch may take."""
    memory: PositiveFloat | None = None
    """Peak memory that a batch may take, in MiB."""
    device: str = "cpu"
    """Device, such as cpu or cuda:0."""
    seconds: PositiveFloat = 40.0
    """Seconds for all timing."""

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2

    @property
    def sequence(self) -> int:
        """Tokens of a layer, with the class token."""
        return self.patches + 1

    @property
    def start(self) -> Start:
        return "converted" if self.trained else "scratch"

    @property
    def limited(self) -> bool:
        return self.budget_ms is not None or self.memory is not None

    @property
    def asked(self) -> str:
        """What is timed, as the subject of a sentence."""
        what = "A training step" if self.train else "Inference"
        return f"{what} of {self.batch} images with {self.sequence} tokens"


def with_sizes_of_model(question: Question) -> Question:
    """The sizes of the model that it names, if it names one, and the image of its number of tokens."""
    if question.model is None:
        if question.tokens is None:
            return question
        return replace(question, image=question.patch * round(math.sqrt(question.tokens)), tokens=None)
    name, options = model_of(question)
    with torch.device("meta"):
        model = create_model(name, **options)
    layers = model.attentions()
    shape = mechanism_of(layers[0]).shape
    side = model.img_size[0]
    patch = question.patch if shape.grid is None else max(1, side // shape.grid[0])
    return replace(
        question, image=side, patch=patch, dim=shape.num_heads * shape.head_dim, depth=len(layers),
        heads=shape.num_heads, tokens=None,
    )  # fmt: skip


def model_of(question: Question) -> tuple[str, Values]:
    """The name of the model to build and its options, but for the attention."""
    if question.model is None:
        return "vit", {
            "img_size": question.image, "patch_size": question.patch, "embed_dim": question.dim,
            "depth": question.depth, "num_heads": question.heads,
        }  # fmt: skip
    for folder in (Path(question.model) / BEST, Path(question.model)):
        if (folder / CONFIG_FILE).exists():
            name, options = read_config(folder)
            return name, {key: value for key, value in options.items() if key not in ("attention", "imports")}
    return question.model, {}
