"""Where recipes are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial

from vixformer.config import Recipe

Value = str | float | bool | None
RECIPES: dict[str, Callable[[], Recipe]] = {}


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
