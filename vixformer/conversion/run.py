"""The run that a trained model becomes with other attention: its recipe, its name, and how it compares with its
parent."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import torch

from vixformer.backbones.backbone import BEST, Backbone
from vixformer.config import FINE_TUNING, Data, Recipe, Train
from vixformer.conversion.swap import check, config_with, configurations, expanded
from vixformer.data.listing import kind_of
from vixformer.data.loader import Loader
from vixformer.data.preprocess import PREPROCESSING_FILE, Preprocessing
from vixformer.measure.accuracy import evaluate
from vixformer.measure.machine import computes_in
from vixformer.results.evidence import Effect, on_images
from vixformer.results.runs import RECIPE, name_in, read_run

RATE, DECAY, BATCH, LEAST_EPOCHS = 5e-4, 0.05, 32, 5
"""Of fine-tuning on a folder of images; more epochs where it has few."""


def recipe_of(folder: Path, model: Backbone, data: str | None) -> Recipe:
    """What a run was trained by; for a model's folder, the configuration of its `model` and the data set that is
    named."""
    if (folder / RECIPE).exists():
        recipe = read_run(folder).recipe
        return recipe if data is None else replace(recipe, data=replace(recipe.data, name=data))
    config = model.config
    if data is None:
        raise ValueError(f"{folder} is a model without a recipe: say which images it is for, as in --data cifar10")
    if not (folder / PREPROCESSING_FILE).exists():
        return Recipe(data=Data(name=data), model=config)
    given = Preprocessing.load(folder)
    resize = None if given.size == given.stored else given.size[0]
    return Recipe(data=Data(name=data, mean=given.mean, std=given.std, resize=resize), model=config)


def converted_recipe(recipe: Recipe, folder: Path, model: Backbone, attention: str, steps: int, epochs: int) -> Recipe:
    """The recipe of a run that starts from `model`, which is in `folder`, with other attention. Says why where that
    cannot be."""
    layers = expanded(model, attention)
    check(model, layers)
    train = recipe.train
    rate = train.lr if train.weights else FINE_TUNING * train.lr  # a converted run's is that of fine-tuning already
    train = replace(train, lr=rate, weights=str(folder.resolve()), distill=steps).shortened(epochs)
    return replace(recipe, model=config_with(model, layers), train=replace(train, epochs=epochs))


def finetuned_recipe(folder: Path, model: Backbone, images: Path, attention: str | None) -> Recipe:
    """The recipe of a run that starts from `model`, which is in `folder`, with a new classifier for the classes of a
    folder of `images`.

    Images are brought to the size and normalized with the statistics that the model knows. The loss chooses the epoch,
    because few validation images give many epochs the same accuracy.
    """
    config = config_with(model, configurations(model) if attention is None else expanded(model, attention))
    if attention is not None:
        check(model, expanded(model, attention))
    height, width = model.img_size
    if height != width:
        raise ValueError(
            f"the model is for images of {height} x {width}, and images of a folder are square: choose another model"
        )
    own = read_run(folder).recipe if (folder / RECIPE).exists() else None
    place = next((place for place in (folder / BEST, folder) if (place / PREPROCESSING_FILE).exists()), None)
    known = None if place is None else Preprocessing.load(place)
    data = Data(
        name=kind_of(images.expanduser()),
        root=str(images.expanduser().resolve()),
        resize=height,
        crop=height // 8,
        flip=own is None or own.data.flip,
        gray=config.in_chans == 1,
        mean=None if known is None else known.mean,
        std=None if known is None else known.std,
    )
    precision = (
        "float32" if own is None or not computes_in(own.train.precision, torch.device("cpu")) else own.train.precision
    )
    train = Train(
        epochs=LEAST_EPOCHS, batch_size=BATCH, lr=RATE, weight_decay=DECAY, schedule="onecycle", clip=1.0,
        label_smoothing=0.1,
        precision=precision, weights=str(folder.resolve()), monitor="val_loss",
    )  # fmt: skip
    return Recipe(data=data, model=replace(config, num_classes=None), train=train)


def finetuned_name(folder: Path, images: Path, attention: str | None) -> str:
    """CIFAR10-on-PHOTOS, and the attention where it is another."""
    data = images.resolve()
    plain = f"{_called(folder)}-on-{data.stem if data.is_file() else data.name}"
    return plain if attention is None else f"{plain}-to-{_flat(attention)}"


def _flat(attention: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", attention.lower()).strip("-")[:48]


def name_of(folder: Path, recipe: Recipe) -> str:
    """Of a converted run: that of its parent in `folder`, and the attention."""
    return f"{_called(folder)}-to-{_flat(recipe.model.attention)}"


def _called(folder: Path) -> str:
    """The recipe of a run, or what the folder of a model says."""
    named = read_run(folder).name if (folder / RECIPE).exists() else None
    return named or name_in(folder.resolve().name)


def difference_on_images(new: Backbone, parent: Backbone, test: Loader) -> Effect:
    """Test top-1 of a converted model minus that of its parent, which have seen the same test images."""
    scores = [evaluate(model.to(test.device), test) for model in (new, parent)]
    return on_images(*((found.predictions == found.labels).tolist() for found in scores))
