"""Recipes by name, and from a file of yours: JSON, TOML, or Python with a function `recipe`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from vixformer.config import Recipe, read_recipe, recipe_from_dict
from vixformer.jsonfile import check_values, read_limited
from vixformer.plugins import load_plugin
from vixformer.registry import unknown

Value = str | float | bool | None
RECIPES: dict[str, Callable[[], Recipe]] = {}
ENDINGS = (".json", ".toml", ".py")


def add(name: str, make: Callable[[], Recipe]) -> None:
    if name in RECIPES:
        raise ValueError(f'two recipes are called "{name}"')
    RECIPES[name] = make


def add_as_printed(pattern: str, **changes: Value) -> None:
    """Beside the recipes of a document, those of its own protocol: `hybrid-as-printed/mnist/all-standard` trains on all
    training images, and the last epoch is what counts. `changes` are fields of `train`."""
    for name in [name for name in RECIPES if fnmatch(name, pattern)]:
        document, _, rest = name.partition("/")
        add(f"{document}-as-printed/{rest}", partial(as_printed, RECIPES[name], **changes))


def as_printed(make: Callable[[], Recipe], **changes: Value) -> Recipe:
    recipe = make()
    weights = recipe.train.weights
    if weights in RECIPES:
        document, _, rest = weights.partition("/")
        changes["weights"] = f"{document}-as-printed/{rest}"
    data = replace(recipe.data, val_fraction=0.0, folds=None)
    return replace(recipe, data=data, train=replace(recipe.train, patience=None, track_test=True, **changes))


def list_recipes(pattern: str = "*") -> list[str]:
    return [name for name in sorted(RECIPES) if fnmatch(name, pattern)]


def load_recipe(name: str) -> Recipe:
    """A recipe by name, or from a JSON, TOML or Python file."""
    if name in RECIPES:
        return RECIPES[name]()
    if is_recipe(name) or Path(name).is_file():
        return _from_file(name)
    raise ValueError(unknown_recipe(name))


def unknown_recipe(name: str) -> str:
    """Without the hundreds of choices."""
    return unknown("recipe", name, RECIPES).partition(" choices:")[0] + ' "vix recipes" lists them'


def is_recipe(word: str) -> bool:
    """Whether it names a recipe or a file for one, which need not be there."""
    return word in RECIPES or word.endswith(ENDINGS)


def name_of(word: str) -> str:
    """Of a recipe, what its runs are called: a file's name without its folder and ending."""
    return Path(word).stem if word.endswith(ENDINGS) else word


def _from_file(path: str) -> Recipe:
    if path.endswith(".py"):
        return _from_python(path)
    return recipe_from_dict(_toml(Path(path)), path) if path.endswith(".toml") else read_recipe(path)


def _from_python(path: str) -> Recipe:
    """The file is loaded as a plugin: what it defines is known by name."""
    make = getattr(load_plugin(path), "recipe", None)
    if not callable(make):
        raise ValueError(f"{path} has no function recipe(): write one that returns a vixformer.config.Recipe")
    made = make()
    if not isinstance(made, Recipe):
        raise ValueError(f"recipe() in {path} should return a vixformer.config.Recipe, not {type(made).__name__}")
    return recipe_from_dict(made.to_dict(), path)  # what a dataclass is made with is not checked


def _toml(path: Path) -> object:
    text = read_limited(path)
    try:
        toml = importlib.import_module("tomllib")
    except ImportError:  # Python 3.10
        raise ValueError(f"{path}: TOML needs Python 3.11 or later; write the recipe as JSON") from None
    try:
        values = toml.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    check_values(values, str(path))
    return values
