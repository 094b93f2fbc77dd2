"""How a run starts from a trained model: converted and distilled where the attention is another, or with the weights
that fit."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from vixformer.attention.project.projection import mechanism_of
from vixformer.backbones.backbone import Backbone
from vixformer.config import Recipe
from vixformer.conversion.distill import distill, fitted_before, images_of_step, seconds_of
from vixformer.conversion.swap import check, configurations, fitted_on, swap
from vixformer.data.loader import Loader
from vixformer.jsonfile import Values
from vixformer.nn.positions import Learned

TEACHING = "teaching.safetensors"
"""In a run folder, what is known of its layers before they were trained: fitted weights, and a distillation that is not
over."""


@dataclass(frozen=True)
class Start:
    model: Backbone
    conversion: Values | None
    """What became of the weights, and how good the model was before the first epoch; None where nothing was
    converted."""
    note: str | None = None
    """What was taken from a model that differs in more than its attention."""


def start(
    fresh: Backbone,
    given: Backbone,
    recipe: Recipe,
    train: Loader,
    judge: Callable[[Backbone], dict[str, float]],
    watch: Callable[[int, int, float], None],
    keep: Path | None,
) -> Start:
    """`judge` says how good a model is, `watch` sees every step of the teaching and the error of the layers after it,
    `keep` is a file from which interrupted distillation resumes."""
    if (headed := _with_head_of(fresh, given)) is not None:
        model, report = swap(headed, configurations(fresh), fitted_on(train), into=fresh, seed=recipe.train.seed)
        return Start(model, None, f"{recipe.train.weights}, converted to {report.attention}, with a new classifier")
    if around(given) != around(fresh):
        return Start(fresh, None, _taken(fresh, given, recipe))
    stages = [{"stage": "parent", **judge(given)}]
    # layers that were chosen come fitted and distilled, and distillation may have been interrupted
    before, _ = seconds_of(keep)
    began = time.perf_counter()
    known = None if keep is None else partial(fitted_before, keep)
    model, report = swap(
        given, configurations(fresh), fitted_on(train), into=fresh, seed=recipe.train.seed, known=known
    )
    fitting = max(time.perf_counter() - began, before)
    stages.append({"stage": "converted", "seconds": fitting, **judge(model)})
    steps = recipe.train.distill
    if steps:
        began = time.perf_counter()
        lessons = partial(images_of_step, train, recipe.train.seed)
        errors = distill(model, given, lessons, steps=steps, watch=partial(watch, steps), keep=keep, fitting=fitting)
        if errors:  # exact attention has nothing to learn from itself
            seconds = max(time.perf_counter() - began, seconds_of(keep)[1])
            stages.append(
                {"stage": "distilled", "seconds": seconds, "steps": steps, "first_error": errors[0],
                 "last_error": errors[-1], **judge(model)}
            )  # fmt: skip
    facts = {
        "parent": recipe.train.weights,
        "layers": [asdict(layer) for layer in report.layers],
        "warnings": report.warnings,
    }
    return Start(model, {**facts, "notes": report.notes, "stages": stages})


def check_start(fresh: Backbone, given: Backbone, recipe: Recipe) -> None:
    """Whether `given` can become `fresh`; says why not."""
    if around(given) == around(fresh):
        check(given, configurations(fresh))
    elif recipe.train.distill:
        raise ValueError(
            f"train.distill: {recipe.train.weights} differs from this model in more than its attention:"
            f" {_one(given, fresh)}"
        )
    elif not fresh.block_weights().intersection(_fitting(fresh, given)):
        raise ValueError(
            f"train.weights: no block of {recipe.train.weights}, a {given.name}, fits this {fresh.name}: weights carry"
            f" over between models of the same kind and width; {_one(given, fresh)}"
        )
    elif given.heads != fresh.heads:
        theirs, ours = (" and ".join(map(str, model.heads)) for model in (given, fresh))
        raise ValueError(
            f"train.weights: {recipe.train.weights} has {theirs} heads and this model {ours}, which do not fit each"
            " other"
        )


def around(model: Backbone) -> Values:
    """Everything about a model that has weights, but its attention."""
    config = model.spelled_out()
    beside = ("attention", *config.dropout)
    return {"model": model.name, **{name: value for name, value in vars(config).items() if name not in beside}}


def _with_head_of(fresh: Backbone, given: Backbone) -> Backbone | None:
    """A copy of `given` with a new classifier, if it differs from `fresh` in that and in attention that it can be
    converted to."""
    there, here = around(given), around(fresh)
    if (
        there | {"num_classes": None} != here | {"num_classes": None}
        or there == here
        or configurations(given) == configurations(fresh)
    ):
        return None
    headed = copy.deepcopy(given)
    headed.reset_classifier(here["num_classes"])
    try:
        check(headed, configurations(fresh))
    except ValueError:
        return None
    return headed


def _one(given: Backbone, fresh: Backbone) -> str:
    """Of what differs."""
    a, b = around(given), around(fresh)
    name = next(name for name in (*a, *b) if a.get(name) != b.get(name))
    return f"{name} is {a.get(name)} there and {b.get(name)} here"


def _fitting(model: Backbone, given: Backbone) -> dict[str, Tensor]:
    own = model.state_dict()
    theirs = {**given.state_dict(), **_other_grid(model, given)}
    return {name: tensor for name, tensor in theirs.items() if name in own and own[name].shape == tensor.shape}


def _other_grid(model: Backbone, given: Backbone) -> dict[str, Tensor]:
    """Learned positions for images of another size: interpolated."""
    there = {name: module for name, module in given.named_modules() if isinstance(module, Learned)}
    here = {name: module for name, module in model.named_modules() if isinstance(module, Learned)}
    return {
        f"{name}.embed": there[name].added(here[name].grid, 1, there[name].embed.device).detach()
        for name in there.keys() & here.keys()
        if there[name].grid != here[name].grid and there[name].prefix == here[name].prefix
    }


def _taken(model: Backbone, given: Backbone, recipe: Recipe) -> str:
    """What fits in name and shape; another classifier, or another projection, stays fresh, and another attention starts
    near exact."""
    fitting, resized = _fitting(model, given), sorted(_other_grid(model, given))
    for module in model.attentions():
        mechanism_of(module).imitate()
    model.load_state_dict(fitting, strict=False)
    fresh = sorted(set(model.state_dict()) - set(fitting))
    some = ", ".join(fresh[:8]) + (f" and {len(fresh) - 8} more" if fresh[8:] else "")
    told = f"{len(fitting)} of {len(fitting) + len(fresh)} weight tensors come from {recipe.train.weights}"
    told += f"; untrained: {some}" if fresh else ""
    return told + (f"; interpolated for another number of tokens: {', '.join(resized)}" if resized else "")
