"""Experiments by name: functions that return a `Recipe`, one derived from another."""

import importlib
import pkgutil

from vixformer.recipes.catalog import RECIPES, is_recipe, list_recipes, load_recipe, name_of, unknown_recipe

for _module in pkgutil.iter_modules(__path__, __name__ + "."):
    importlib.import_module(_module.name)

__all__ = ["RECIPES", "is_recipe", "list_recipes", "load_recipe", "name_of", "unknown_recipe"]
