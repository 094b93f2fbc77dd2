"""A recipe in a file of yours: JSON, TOML, or Python with a function `recipe`."""

from __future__ import annotations

import importlib
from pathlib import Path

from vixformer.config import Recipe, read_recipe, recipe_from_dict
from vixformer.jsonfile import check_values, read_limited
from vixformer.plugins import load_plugin

ENDINGS = (".json", ".toml", ".py")


def is_recipe_file(word: str) -> bool:
    return word.endswith(ENDINGS)


def name_of(word: str) -> str:
    """Of a recipe, what its runs are called: a file's name without its folder and ending."""
    return Path(word).stem if is_recipe_file(word) else word


def recipe_in(path: str) -> Recipe:
    if path.endswith(".py"):
        return _from_python(path)
    if path.endswith(".toml"):
        return _from_toml(Path(path))
    return read_recipe(path)


def _from_python(path: str) -> Recipe:
    """The file is loaded as a plugin: what it defines is known by name."""
    make = getattr(load_plugin(path), "recipe", None)
    if not callable(make):
        raise ValueError(f"{path} has no function recipe(): write one that returns a vixformer.config.Recipe")
    made = make()
    if not isinstance(made, Recipe):
        raise ValueError(f"recipe() in {path} should return a vixformer.config.Recipe, not {type(made).__name__}")
    return recipe_from_dict(made.to_dict(), path)  # what a dataclass is made with is not checked


def _from_toml(path: Path) -> Recipe:
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
    return recipe_from_dict(values, str(path))
