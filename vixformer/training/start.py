"""What a run starts from: fresh weights, or those of a trained model, converted and taught where the attention is another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vixformer.backbones.base import Backbone, from_pretrained, mechanism_of
from vixformer.config import Recipe
from vixformer.conversion.distil import distil
from vixformer.conversion.swap import swap
from vixformer.data.loader import Loader
from vixformer.recipes import RECIPES, load_recipe
from vixformer.results.runs import BEST

MOST_FITTED = 64
"""Images that a conversion looks at: fitting holds the attention of all of them in memory."""


@dataclass(frozen=True)
class Start:
    model: Any
    conversion: dict[str, Any] | None
    """What became of the weights, and how good the model was before the first epoch; None where nothing was converted."""


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
    try:
        return from_pretrained(folder / BEST if (folder / BEST).exists() else folder)
    except ValueError as error:
        raise ValueError(f"{folder} must be a finished run or a model's folder: {error}") from None


def start(
    fresh: Any,
    recipe: Recipe,
    train: Loader,
    generator: torch.Generator,
    judge: Callable[[Any], dict[str, float]],
    watch: Callable[[int, int, float], None],
) -> Start:
    """`judge` says how good a model is, `watch` sees every step of the teaching and the error of the layers after it."""
    folder = Path(recipe.train.weights or "")
    try:
        given: Any = trained_model(folder).to(next(fresh.parameters()).device)
    except ValueError as error:
        raise ValueError(f"train.weights: {error}") from None
    if _around(given) != _around(fresh):
        return Start(_fitting(fresh, given, folder), None)
    stages = [{"stage": "parent", **judge(given)}]
    began = time.perf_counter()
    model, report = swap(given, [mechanism_of(module).config for module in fresh.attentions()], fitted_on(train))
    stages.append({"stage": "converted", "seconds": time.perf_counter() - began, **judge(model)})
    steps = recipe.train.distill
    if steps:
        began = time.perf_counter()
        errors = distil(model, given, endless(train, generator), steps=steps, watch=lambda step, error: watch(step + 1, steps, error))
        if errors:  # exact attention has nothing to learn from itself
            stages.append(
                {"stage": "distilled", "seconds": time.perf_counter() - began, "steps": steps, "first_error": errors[0],
                 "last_error": errors[-1], **judge(model)}
            )  # fmt: skip
    facts = {"parent": str(folder), "layers": [asdict(layer) for layer in report.layers], "warnings": report.warnings,
             "notes": report.notes, "stages": stages}  # fmt: skip
    return Start(model, facts)


def _around(model: Any) -> dict[str, Any]:
    """Everything about a model but its attention."""
    values = {field.name: getattr(model.config, field.name) for field in fields(model.config)}
    return {"model": model.name, **{name: value for name, value in values.items() if name not in ("attention", "attention_bias")}}


def _fitting(model: Any, given: Backbone, folder: Path) -> Any:
    """What fits in name and shape; another classifier, or another projection, stays fresh."""
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in given.state_dict().items() if name in own and own[name].shape == tensor.shape}
    if not any(name.startswith(("blocks", "stages")) for name in fitting):
        raise ValueError(
            f"train.weights: no block of {folder}, a {given.name}, fits this {model.name}: weights carry over between models "
            "of the same kind, width and heads"
        )
    model.load_state_dict(fitting, strict=False)
    return model


def fitted_on(loader: Loader) -> Tensor:
    """A few images, for a conversion to look at."""
    few = loader.spread(MOST_FITTED)
    return torch.cat([images for images, _ in few.plain()])


def endless(loader: Loader, generator: torch.Generator) -> Iterator[Tensor]:
    while True:
        for images, _ in loader.batches(loader.order(generator), generator):
            yield images
