"""What a run starts from: fresh weights, or those of a trained model, converted and taught where the attention is another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vixformer.backbones.base import BEST, Backbone, from_pretrained, mechanism_of
from vixformer.config import GIVEN, Recipe
from vixformer.conversion.distill import distill, seconds_taught
from vixformer.conversion.swap import check, configurations, swap
from vixformer.data.loader import Loader
from vixformer.recipes import RECIPES, load_recipe, unknown_recipe
from vixformer.results.runs import RECIPE

MOST_FITTED = 64
"""Images that a conversion looks at: fitting holds the attention of all of them in memory."""


@dataclass(frozen=True)
class Start:
    model: Any
    conversion: dict[str, Any] | None
    """What became of the weights, and how good the model was before the first epoch; None where nothing was converted."""
    note: str | None = None
    """What was taken from a model that differs in more than its attention."""


def asks_for_weights(recipe: Recipe) -> bool:
    """Whether it starts from a trained model that whoever trains it has to name."""
    return recipe.train.weights == GIVEN


def parent_of(recipe: Recipe, among: Mapping[str, Recipe] | None = None) -> tuple[str, Recipe] | None:
    """The recipe that `train.weights` names: as it is in `among`, or as it comes. It gets the same data, so that it has not seen what
    validates, and the same seed."""
    name = recipe.train.weights
    if name is None or name not in RECIPES:
        return None
    parent = among[name] if among and name in among else load_recipe(name)
    return name, replace(parent, data=recipe.data, train=replace(parent.train, seed=recipe.train.seed))


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


def parent_model(recipe: Recipe) -> Any:
    """What `train.weights` names, or None."""
    if recipe.train.weights is None:
        return None
    if asks_for_weights(recipe):
        raise ValueError("this recipe starts from a trained model: give --train.weights FOLDER, a run or a model's folder")
    folder = Path(recipe.train.weights)
    if not folder.exists():
        raise ValueError(f"train.weights must be a run, a model's folder or a recipe: {unknown_recipe(str(folder))}")
    try:
        return trained_model(folder)
    except ValueError as error:
        raise ValueError(f"train.weights: {error}") from None


def start(
    fresh: Any,
    given: Any,
    recipe: Recipe,
    train: Loader,
    judge: Callable[[Any], dict[str, float]],
    watch: Callable[[int, int, float], None],
    keep: Path | None,
) -> Start:
    """`judge` says how good a model is, `watch` sees every step of the teaching and the error of the layers after it, `keep` is a file
    from which interrupted teaching goes on."""
    if around(given) != around(fresh):
        return Start(fresh, None, _taken(fresh, given, recipe))
    stages = [{"stage": "parent", **judge(given)}]
    began = time.perf_counter()
    model, report = swap(given, configurations(fresh), fitted_on(train), config=fresh.spelled_out(), seed=recipe.train.seed)
    stages.append({"stage": "converted", "seconds": time.perf_counter() - began, **judge(model)})
    steps = recipe.train.distill
    if steps:
        began = time.perf_counter()
        lessons = partial(lesson, train, recipe.train.seed)
        errors = distill(model, given, lessons, steps=steps, watch=lambda step, error: watch(step + 1, steps, error), keep=keep)
        if errors:  # exact attention has nothing to learn from itself
            seconds = max(time.perf_counter() - began, seconds_taught(keep))  # a part of it may have been taught before
            stages.append(
                {"stage": "distilled", "seconds": seconds, "steps": steps, "first_error": errors[0],
                 "last_error": errors[-1], **judge(model)}
            )  # fmt: skip
    facts = {"parent": recipe.train.weights, "layers": [asdict(layer) for layer in report.layers], "warnings": report.warnings}
    return Start(model, {**facts, "notes": report.notes, "stages": stages})


def check_start(fresh: Any, given: Any, recipe: Recipe) -> None:
    """Whether `given` can become `fresh`; says why not."""
    if around(given) == around(fresh):
        check(given, configurations(fresh))
    elif recipe.train.distill:
        raise ValueError(f"train.distill: {recipe.train.weights} differs from this model in more than its attention: {_one(given, fresh)}")
    elif not any(name.startswith(("blocks", "stages")) for name in _fitting(fresh, given)):
        raise ValueError(
            f"train.weights: no block of {recipe.train.weights}, a {given.name}, fits this {fresh.name}: weights carry over between models "
            f"of the same kind and width; {_one(given, fresh)}"
        )
    elif (heads := [_heads(model) for model in (given, fresh)])[0] != heads[1]:
        raise ValueError(
            f"train.weights: {recipe.train.weights} has {heads[0]} heads and this model {heads[1]}, which do not fit each other"
        )


def around(model: Any) -> dict[str, Any]:
    """Everything about a model that has weights, but its attention."""
    config = model.spelled_out()
    values = {field.name: getattr(config, field.name) for field in fields(config) if "drop" not in field.name and field.name != "attention"}
    return {"model": model.name, **values}


def _one(given: Any, fresh: Any) -> str:
    """Of what differs."""
    a, b = around(given), around(fresh)
    name = next(name for name in (*a, *b) if a.get(name) != b.get(name))
    return f"{name} is {a.get(name)} there and {b.get(name)} here"


def _heads(model: Any) -> str:
    found = dict.fromkeys(str(mechanism_of(module).shape.num_heads) for module in model.attentions())
    return " and ".join(found)


def _fitting(model: Any, given: Backbone) -> dict[str, Tensor]:
    own = model.state_dict()
    return {name: tensor for name, tensor in given.state_dict().items() if name in own and own[name].shape == tensor.shape}


def _taken(model: Any, given: Backbone, recipe: Recipe) -> str:
    """What fits in name and shape; another classifier, or another projection, stays fresh, and another attention starts near exact."""
    fitting = _fitting(model, given)
    for module in model.attentions():
        mechanism_of(module).imitate()
    model.load_state_dict(fitting, strict=False)
    fresh = sorted(set(model.state_dict()) - set(fitting))
    some = ", ".join(fresh[:8]) + (f" and {len(fresh) - 8} more" if fresh[8:] else "")
    return f"{len(fitting)} weights and buffers from {recipe.train.weights}; fresh: {some or 'none'}"


def fitted_on(loader: Loader) -> Tensor:
    """A few images, for a conversion to look at."""
    return torch.cat([images for images, _ in loader.spread(MOST_FITTED).plain()])


def lesson(loader: Loader, seed: int, step: int) -> Tensor:
    """The images of a step of teaching: by its number alone, so that teaching can go on anywhere."""
    generator = torch.Generator().manual_seed((seed << 32) + step)
    return next(loader.batches(loader.order(generator)[: loader.batch_size], generator))[0]
