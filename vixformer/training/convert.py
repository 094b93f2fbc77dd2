"""A trained run with other attention: which layers, and the recipe of the run that it becomes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vixformer.backbones.base import Backbone, mechanism_of
from vixformer.config import Data, Recipe
from vixformer.conversion.choose import Choice, choose
from vixformer.conversion.distil import distil
from vixformer.conversion.swap import expanded, swap
from vixformer.data.loader import Loader
from vixformer.measure.accuracy import evaluate
from vixformer.recipes.convert import RATE
from vixformer.results.runs import RECIPE, read_run
from vixformer.training.budget import Cut
from vixformer.training.parts import Parts, load_parts, pick_device
from vixformer.training.start import endless, fitted_on, trained_model

SECONDS = 120.0
"""That judging may take, where the validation part is large enough to cut."""
LEAST = 200
"""Images below which an accuracy says too little to choose by."""
TIMED = 64


def recipe_of(folder: Path, data: str | None) -> Recipe:
    """What a run was trained by; for a model's folder, its configuration and the data set that is named."""
    if (folder / RECIPE).exists():
        recipe = read_run(folder).recipe
        return recipe if data is None else replace(recipe, data=replace(recipe.data, name=data))
    config: Any = trained_model(folder).config
    if data is None:
        raise ValueError(f"{folder} is a model without a recipe: say which images it is for, as in --data cifar10")
    return Recipe(data=Data(name=data), model=config)


def converted_recipe(recipe: Recipe, folder: Path, attention: str, distill: int, epochs: int) -> Recipe:
    """The recipe of a run that starts from the one in `folder`, with other attention. Says why where that cannot be."""
    model = trained_model(folder)
    new, _ = swap(model, expanded(model, attention))
    train = replace(recipe.train, lr=RATE * recipe.train.lr, weights=str(folder.resolve()), distill=distill)
    return Cut(epochs, 1.0).applied(replace(recipe, model=new.config, train=train))


def differing(folder: Path, attention: str) -> int:
    """How many layers of a model have another attention than this."""
    model = trained_model(folder)
    return sum(mechanism_of(a).config != b for a, b in zip(model.attentions(), expanded(model, attention), strict=True))


def name_of(folder: Path, recipe: Recipe) -> str:
    """Of a converted run: its parent's, without what made that one unique, and the attention."""
    parent = re.sub(r"-seed\d+(-fold\d+)?-[0-9a-f]{12}$", "", folder.resolve().name)
    return f"{parent}-to-{re.sub(r'[^a-z0-9]+', '-', recipe.model.attention.lower()).strip('-')[:48]}"


def choose_layers(
    recipe: Recipe, folder: Path, attention: str, distill: int = 0, watch: Callable[[str, int, int], None] = lambda *_: None
) -> Choice:
    """Convert all layers, teach them if that is wanted, and find out on the validation part which ones to keep so."""
    device = pick_device(recipe.train.device)
    parts = load_parts(recipe, device)
    torch.manual_seed(recipe.train.seed)
    old: Any = trained_model(folder).to(device)
    new, _ = swap(old, expanded(old, attention), fitted_on(parts.train))
    if distill:
        generator = torch.Generator().manual_seed(recipe.train.seed)
        distil(new, old, endless(parts.train, generator), steps=distill, watch=lambda step, _: watch("teaching", step + 1, distill))
    loader = _cut(parts, old)

    def judge(model: Any) -> tuple[float, float]:
        scores = evaluate(model, loader)
        return scores.loss, scores.top1

    images, _ = next(loader.plain())
    return choose(old, new, judge, images[:TIMED], lambda done, total: watch("judging layers", done, total))


def _cut(parts: Parts, model: Backbone) -> Loader:
    """As many images to judge by as there is time for."""
    loader = parts.val
    if loader is None:
        raise ValueError("layers are chosen on validation images, and this recipe has none: set data.val_fraction")
    images, _ = next(loader.plain())
    with torch.inference_mode():
        model(images)
        began = time.perf_counter()
        model(images)
        an_image = (time.perf_counter() - began) / len(images)
    layers = len(model.attentions())
    most = max(LEAST, int(SECONDS / (layers * (layers + 1) / 2 + 1) / an_image))
    return loader.spread(most)
