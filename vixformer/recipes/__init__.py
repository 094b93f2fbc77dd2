"""Experiments by name: functions that return a `Recipe`, one derived from another."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

from vixformer.config import Recipe
from vixformer.recipes.catalog import RECIPES
from vixformer.recipes.from_file import is_recipe_file, recipe_in
from vixformer.registry import unknown

for _module in pkgutil.iter_modules(__path__, __name__ + "."):
    importlib.import_module(_module.name)

__all__ = ["RECIPES", "list_recipes", "load_recipe", "unknown_recipe"]


def list_recipes(pattern: str = "*") -> list[str]:
    return [name for name in sorted(RECIPES) if fnmatch(name, pattern)]


def load_recipe(name: str) -> Recipe:
    """A recipe by name, or from a JSON, TOML or Python file."""
    if name in RECIPES:
        make: Callable[[], Recipe] = RECIPES[name]
        return make()
    if is_recipe_file(name) or Path(name).is_file():
        return recipe_in(name)
    raise ValueError(unknown_recipe(name))


def unknown_recipe(name: str) -> str:
    """Without the hundreds of choices."""
    return unknown("recipe", name, RECIPES).partition(" choices:")[0] + ' "vix recipes" lists them'
