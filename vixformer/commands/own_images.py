"""`--data` of a folder of images, and what is picked for it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from vixformer.registry import unknown
from vixformer.terminal import say

if TYPE_CHECKING:
    from vixformer.config import Recipe


def data_options(word: str | None) -> dict[str, str]:
    """The options of a recipe that `--data` stands for: a known data set, or a folder of images."""
    from vixformer.data.base import DataSet

    if word is None:
        return {}
    if word.partition(":")[0] in DataSet.members:
        return {"data.name": word}
    folder = Path(word).expanduser()
    if folder.is_dir():
        return {"data.name": "folder", "data.root": str(folder.resolve())}
    if "/" in word:
        raise ValueError(f"there is no folder {word}: --data takes a folder with one folder of images per class, or a data set")
    raise ValueError(f"{unknown('data set', word, DataSet.members)}, or a folder with one folder of images per class")


def picked(recipes: dict[str, Recipe], given: Collection[str], seconds: float | None = None) -> dict[str, Recipe]:
    """Recipes for one folder of images with what suits it; says so. `given` are the options that somebody set, `seconds` is the time that
    a budget leaves for one training."""
    from vixformer.experiments.suit import suited

    found, told = suited(recipes, given, seconds)
    say(told)
    return found
