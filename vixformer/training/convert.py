"""A trained run with other attention: which layers, and the recipe of the run that it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vixformer.backbones.base import Backbone
from vixformer.config import Data, Recipe
from vixformer.conversion.choose import Choice, choose
from vixformer.conversion.distill import distill
from vixformer.conversion.swap import configurations, differing, expanded, swap
from vixformer.data.loader import Loader
from vixformer.data.preprocess import PREPROCESSING_FILE, Preprocessing
from vixformer.measure.accuracy import evaluate
from vixformer.measure.latency import interleaved
from vixformer.recipes.convert import RATE
from vixformer.results.evidence import Effect, on_images
from vixformer.results.runs import RECIPE, Run, read_run
from vixformer.training.budget import Cut
from vixformer.training.parts import load_parts, pick_device
from vixformer.training.start import fitted_on, lesson, trained_model

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
    if not (folder / PREPROCESSING_FILE).exists():
        return Recipe(data=Data(name=data), model=config)
    given = Preprocessing.load(folder)
    resize = None if given.size == given.stored else given.size[0]
    return Recipe(data=Data(name=data, mean=given.mean, std=given.std, resize=resize), model=config)


def converted_recipe(recipe: Recipe, folder: Path, model: Backbone, attention: str, steps: int, epochs: int) -> Recipe:
    """The recipe of a run that starts from `model`, which is in `folder`, with other attention. Says why where that cannot be."""
    new, _ = swap(model, expanded(model, attention))
    rate = recipe.train.lr if recipe.train.weights else RATE * recipe.train.lr  # a converted run's is that of fine-tuning already
    train = replace(recipe.train, lr=rate, weights=str(folder.resolve()), distill=steps)
    shorter = Cut(epochs, 1.0).applied(replace(recipe, model=new.config, train=train))
    return replace(shorter, train=replace(shorter.train, epochs=epochs))


def name_of(folder: Path, recipe: Recipe) -> str:
    """Of a converted run: its parent's, without what made that one unique, and the attention."""
    parent = re.sub(r"-seed\d+(-fold\d+)?-[0-9a-f]{12}$", "", folder.resolve().name)
    return f"{parent}-to-{re.sub(r'[^a-z0-9]+', '-', recipe.model.attention.lower()).strip('-')[:48]}"


def difference_on_images(run: Run, parent: Path) -> Effect:
    """Test top-1 of a converted run minus that of its parent, which have seen the same test images."""
    device = pick_device(run.recipe.train.device)
    test = load_parts(run.recipe, device).test
    new, old = (evaluate(trained_model(folder).to(device), test) for folder in (run.folder, parent))
    return on_images(*((scores.predictions == scores.labels).tolist() for scores in (new, old)))


def choose_layers(
    recipe: Recipe,
    model: Backbone,
    attention: str,
    steps: int = 0,
    watch: Callable[[str, int, int], None] = lambda *_: None,
    keep: Path | None = None,
) -> Choice:
    """Convert all layers, teach them if that is wanted, and find out on the validation part which ones to keep so. `keep` is a file from
    which interrupted teaching goes on."""
    device = pick_device(recipe.train.device)
    recipe.build()  # says so where the data is not for this model
    parts = load_parts(recipe, device)
    if parts.val is None:
        raise ValueError("layers are chosen on validation images, and this recipe has none: set data.val_fraction")
    old: Any = model.to(device)
    new, _ = swap(old, expanded(old, attention), fitted_on(parts.train), seed=recipe.train.seed)
    if steps:
        lessons = partial(lesson, parts.train, recipe.train.seed)
        distill(new, old, lessons, steps=steps, watch=lambda step, _: watch("teaching", step + 1, steps), keep=keep)
    loader = _cut(parts.val, new, len(differing(old, configurations(new))))

    def judge(candidate: Any) -> tuple[float, float]:
        scores = evaluate(candidate, loader)
        return scores.loss, scores.top1

    images, _ = next(loader.plain())
    return choose(old, new, judge, images[:TIMED], lambda done, total: watch("judging layers", done, total))


def _cut(loader: Loader, model: Backbone, layers: int) -> Loader:
    """As many images to judge by as there is time for."""
    images, _ = next(loader.plain())
    with torch.inference_mode():
        an_image = interleaved({"": lambda: model(images)}, 0.0, least=3, device=images.device)[""].min / 1e3 / len(images)
    return loader.spread(max(LEAST, int(SECONDS / (layers * (layers + 1) / 2 + 1) / an_image)))
