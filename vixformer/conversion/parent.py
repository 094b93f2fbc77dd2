"""The trained model that a run starts from: which one a recipe names, and where it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from vixformer.backbones.backbone import BEST, Backbone, from_pretrained
from vixformer.config import GIVEN, Recipe
from vixformer.recipes import RECIPES, load_recipe, unknown_recipe
from vixformer.results.runs import RECIPE, folder_of


def asks_for_weights(recipe: Recipe) -> bool:
    """Whether it starts from a trained model that whoever trains it has to name."""
    return recipe.train.weights == GIVEN


def parent_of(recipe: Recipe, among: Mapping[str, Recipe] | None = None) -> tuple[str, Recipe] | None:
    """The recipe that `train.weights` names: as it is in `among`, or as it comes. It gets the same data, so that it has
    not seen what validates, and the same seed."""
    name = recipe.train.weights
    if name is None or name not in RECIPES:
        return None
    parent = among[name] if among and name in among else load_recipe(name)
    return name, replace(parent, data=recipe.data, train=replace(parent.train, seed=recipe.train.seed))


@dataclass(frozen=True)
class Parent:
    """The run that another starts from."""

    name: str
    recipe: Recipe
    folder: Path

    def started(self, recipe: Recipe) -> Recipe:
        return replace(recipe, train=replace(recipe.train, weights=str(self.folder.resolve())))


def parent_run(recipe: Recipe, out: Path, digest: str, among: Mapping[str, Recipe] | None = None) -> Parent | None:
    """Where the run of the recipe that this one starts from is, or will be. `digest` is of the data, which are the
    same.

    `among` are recipes as they are run beside it, cut or changed: a parent among them is taken as it is there.
    """
    found = parent_of(recipe, among)
    return None if found is None else Parent(*found, folder_of(out, *found, digest))


def trained_model(folder: Path) -> Backbone:
    """The best model of a run, or a model's own folder."""
    if str(folder) in RECIPES and not folder.exists():
        raise ValueError(f'{folder} is a recipe: train it first ("vix train {folder}") and give the folder of the run')
    if folder.is_dir() and not (folder / BEST).exists() and any(folder.glob(f"*/{RECIPE}")):
        raise ValueError(f'{folder} is a folder of runs: give one of them ("vix runs {folder}" lists them)')
    if not folder.exists():
        raise ValueError(f'there is no folder {folder}: give a run or a model\'s folder; "vix runs" lists runs')
    try:
        return from_pretrained(folder / BEST if (folder / BEST).exists() else folder)
    except ValueError as error:
        raise ValueError(f"{folder} must be a run or a model's folder: {error}") from None


def parent_model(recipe: Recipe) -> Backbone | None:
    """What `train.weights` names, or None."""
    if recipe.train.weights is None:
        return None
    if asks_for_weights(recipe):
        raise ValueError(
            "this recipe starts from a trained model: give --train.weights FOLDER, a run or a model's folder"
        )
    folder = Path(recipe.train.weights)
    if not folder.exists():
        raise ValueError(f"train.weights must be a run, a model's folder or a recipe: {unknown_recipe(str(folder))}")
    try:
        return trained_model(folder)
    except ValueError as error:
        raise ValueError(f"train.weights: {error}") from None
