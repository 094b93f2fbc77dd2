"""What suits a folder of images, where nobody says: their size, the size of a batch and the number of epochs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from statistics import median

import torch

from vixformer.backbones.backbone import Backbone
from vixformer.config import Recipe
from vixformer.data.folder import Folder
from vixformer.data.picture import short_side
from vixformer.measure.cost import bytes_kept, multiply_adds, one_image
from vixformer.notes import note
from vixformer.options import flag_of
from vixformer.room import memory

SIDES = (32, 48, 64, 96, 128, 160, 192, 224)
LOOKED_AT = 50
"""Photographs whose size is read."""
SECONDS = 300.0
"""That training may take, as far as this can be told beforehand."""
SPEED = 4e9
"""Multiply-adds of a forward pass in a second of training, on one thread of the processors tried."""
STEPS, TUNING_STEPS, MOST_EPOCHS = 1000, 200, 100
"""Optimizer steps that are enough: from scratch, and to fine-tune."""
EXTENDED = 3
"""Times as many, where a budget says how long they may take."""
STEPS_AN_EPOCH, LEAST_BATCH = 10, 8
MEMORY_SHARE = 0.25
"""Of the memory, that a batch may need: everything that backward keeps, and its gradients."""
OPTIONS = {"resize": "data.resize", "batch_size": "train.batch_size", "epochs": "train.epochs"}


@dataclass(frozen=True)
class Photographs:
    """What a folder has to train on."""

    count: int
    """Images to train on."""
    classes: int
    side: int
    """The shorter side of a usual one, in pixels."""

    @staticmethod
    def of(folder: Folder, val_fraction: float) -> Photographs:
        files = [path for path, _ in folder.files("train")]
        some = files[:: max(1, len(files) // LOOKED_AT)]
        return Photographs(
            round(len(files) * (1 - val_fraction)), len(folder.classes()), round(median(map(short_side, some)))
        )


def suited(
    recipes: Mapping[str, Recipe], given: Collection[str], seconds: float | None = None
) -> tuple[dict[str, Recipe], str]:
    """Recipes for one folder of images with what suits it, the same for all of them, and a sentence that says what was
    picked.

    `given` are the options that somebody set (train.epochs), which stay. `seconds` is what a budget allows one
    training.
    """
    first = next(iter(recipes.values()))
    source = first.data.source()
    assert isinstance(source, Folder)
    found = Photographs.of(source, 1 / first.data.folds if first.data.folds else first.data.val_fraction)
    picked: dict[str, int] = {}
    if OPTIONS["batch_size"] not in given:
        picked["batch_size"] = min(_batch(found, recipe) for recipe in recipes.values())
    recipes = {name: _with(recipe, picked) for name, recipe in recipes.items()}
    if OPTIONS["epochs"] not in given and all(recipe.train.epochs for recipe in recipes.values()):
        steps = EXTENDED if seconds is not None else 1
        picked["epochs"] = max(_epochs(found, recipe, steps) for recipe in recipes.values())
    if OPTIONS["resize"] not in given and all(recipe.data.resize is None for recipe in recipes.values()):
        allowed = SECONDS if seconds is None else EXTENDED * seconds  # for the additional epochs
        epochs = picked.get("epochs", first.train.epochs)
        picked["resize"] = min(_side(found, recipe, epochs, allowed) for recipe in recipes.values())
    recipes = {name: _with(recipe, picked) for name, recipe in recipes.items()}
    if (
        "batch_size" in picked
        and (fits := min(_fitting(found, recipe) for recipe in recipes.values())) < picked["batch_size"]
    ):
        picked["batch_size"] = fits
        recipes = {name: _with(recipe, picked) for name, recipe in recipes.items()}
    if isinstance(source, Folder) and (unused := source.unused()):
        note(f"{source.root} has a folder train, so its other folders of images are not used: {', '.join(unused)}")
    return recipes, _told(found, picked)


def _with(recipe: Recipe, picked: Mapping[str, int]) -> Recipe:
    train = recipe.train if "epochs" not in picked else recipe.train.lasting(picked["epochs"])
    train = replace(train, batch_size=picked.get("batch_size", train.batch_size))
    return replace(recipe, data=replace(recipe.data, resize=picked.get("resize", recipe.data.resize)), train=train)


def _batch(found: Photographs, recipe: Recipe) -> int:
    """The recipe's, or less, so that an epoch has some steps."""
    return min(recipe.train.batch_size, max(LEAST_BATCH, 2 ** int(math.log2(max(1, found.count / STEPS_AN_EPOCH)))))


def _epochs(found: Photographs, recipe: Recipe, times: int) -> int:
    """The recipe's, or more, so that there are enough steps."""
    enough = times * (STEPS if recipe.train.weights is None else TUNING_STEPS)
    an_epoch = math.ceil(found.count * recipe.data.fraction / recipe.train.batch_size / recipe.train.accumulate)
    return max(recipe.train.epochs, min(MOST_EPOCHS, math.ceil(enough / max(1, an_epoch))))


def _side(found: Photographs, recipe: Recipe, epochs: int, seconds: float) -> int:
    """The largest that the photographs have and that can be trained in the time; the smallest that the model takes, if
    there is none."""
    own = recipe.model.img_size
    sides = []
    for side in [own] if isinstance(own, int) else SIDES:
        model = _model(recipe, side, found.classes)
        if model is None or (sides and side > found.side):
            continue
        images = found.count * recipe.data.fraction * epochs
        if sides and multiply_adds(model, one_image(model)) * images / (SPEED * torch.get_num_threads()) > seconds:
            break
        sides.append(side)
    return sides[-1] if sides else SIDES[0]


def _model(recipe: Recipe, side: int, classes: int) -> Backbone | None:
    """Without weights; None where the model cannot have images of this size."""
    try:
        with torch.device("meta"):
            config = recipe.model.filled(side, 1 if recipe.data.gray else 3, classes)
            return config.owner(config)
    except ValueError:
        return None


def _fitting(found: Photographs, recipe: Recipe) -> int:
    """The batch size that fits into the memory."""
    batch, model = recipe.train.batch_size, _model(recipe, recipe.data.resize or SIDES[0], found.classes)
    needed = 2 * bytes_kept(model, one_image(model)) if model is not None else 0
    while batch > 1 and batch * needed > MEMORY_SHARE * memory():
        batch //= 2
    return batch


def _told(found: Photographs, picked: Mapping[str, int]) -> str:
    words = {
        "resize": "images of {0} x {0} pixels",
        "batch_size": "batches of {0}",
        "epochs": "{0} epochs",
    }
    parts = [
        f"{what.format(picked[name])} ({flag_of(OPTIONS[name])})" for name, what in words.items() if name in picked
    ]
    if not parts:
        return ""
    kinds = f" of {found.classes} classes" if found.classes > 1 else ""
    return f"Picked for {found.count:,} training images{kinds}: {', '.join(parts)}. The flags choose others."
