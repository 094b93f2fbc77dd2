"""The run that a trained model becomes with other attention: its recipe, its name, and how it compares with its parent."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from vixformer.backbones.backbone import Backbone
from vixformer.config import FINE_TUNING, Data, Recipe
from vixformer.conversion.swap import check, config_with, expanded
from vixformer.data.loader import Loader
from vixformer.data.preprocess import PREPROCESSING_FILE, Preprocessing
from vixformer.measure.accuracy import evaluate
from vixformer.results.evidence import Effect, on_images
from vixformer.results.runs import RECIPE, name_in, read_run


def recipe_of(folder: Path, model: Backbone, data: str | None) -> Recipe:
    """What a run was trained by; for a model's folder, the configuration of its `model` and the data set that is named."""
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
    """The recipe of a run that starts from `model`, which is in `folder`, with other attention. Says why where that cannot be."""
    layers = expanded(model, attention)
    check(model, layers)
    train = recipe.train
    rate = train.lr if train.weights else FINE_TUNING * train.lr  # a converted run's is that of fine-tuning already
    train = replace(train, lr=rate, weights=str(folder.resolve()), distill=steps).shortened(epochs)
    return replace(recipe, model=config_with(model, layers), train=replace(train, epochs=epochs))


def name_of(folder: Path, recipe: Recipe) -> str:
    """Of a converted run: that of its parent in `folder`, and the attention."""
    named = read_run(folder).name if (folder / RECIPE).exists() else None
    attention = re.sub(r"[^a-z0-9]+", "-", recipe.model.attention.lower()).strip("-")
    return f"{named or name_in(folder.resolve().name)}-to-{attention[:48]}"


def difference_on_images(new: Backbone, parent: Backbone, test: Loader) -> Effect:
    """Test top-1 of a converted model minus that of its parent, which have seen the same test images."""
    scores = [evaluate(model.to(test.device), test) for model in (new, parent)]
    return on_images(*((found.predictions == found.labels).tolist() for found in scores))
