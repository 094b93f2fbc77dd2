"""Commands that show what there is: models, attentions, recipes, runs."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from vixformer.terminal import Nothing, count, megabytes, read, say, table


def models(args: Sequence[str]) -> None:
    read(Nothing, args, "models")
    import torch

    from vixformer.measure.cost import most_tokens, multiply_adds, one_image, parameters
    from vixformer.models import create_model, list_models

    rows = []
    for name in list_models():
        with torch.device("meta"):  # sizes without weights
            model = create_model(name)
        size, image, found = f"{model.img_size[0]} x {model.img_size[1]}", one_image(model), parameters(model)
        rows.append((name, size, *map(count, (most_tokens(model), found.all, found.modules, multiply_adds(model, image)))))
    table(("model", "image", "tokens", "parameters", "in modules", "multiply-adds"), rows)


def attentions(args: Sequence[str]) -> None:
    read(Nothing, args, "attentions")
    from vixformer.attention.base import Mechanism
    from vixformer.attention.kernels.kernel import Kernel

    table(("attention", "options and defaults", "what it is"), [_described(cls) for _, cls in sorted(Mechanism.members.items())], grid=True)
    table(("kernel=", "options and defaults", "what it is"), [_described(cls) for _, cls in sorted(Kernel.members.items())], grid=True)
    say('Layouts: "performer + softmax" alternates, "first(performer, n=2, rest=nystrom)" and "last(...)" split the depth, "*3" repeats,')
    say('"a | b" is one pattern a stage. See docs/attention.md.')


def _described(cls: Any) -> tuple[str, str, str]:
    fields = [(f.name, getattr(cls.Config(), f.name)) for f in dataclasses.fields(cls.Config)]
    plain = {None: "none", True: "true", False: "false"}
    words = [f"{k}={v.owner.name if hasattr(v, 'owner') else plain.get(v, v) if not isinstance(v, float) else v}" for k, v in fields]
    about = (sys.modules[cls.__module__].__doc__ or "").strip().splitlines()[0]
    return cls.name, ", ".join(words), about


def show(args: Sequence[str]) -> None:
    if args[:1] in (["--help"], ["-h"]):
        return say('"vix show vit --help" lists the options of a model, "vix models" the models.')
    if not args or args[0].startswith("-"):
        raise ValueError('which model? write "vix show vit --attention ..."; "vix models" lists them')
    from vixformer.measure.cost import layer_costs, model_cost
    from vixformer.models import create_model, model_config
    from vixformer.recipes import list_recipes, load_recipe, unknown_recipe

    name, *options = args
    is_recipe = name in list_recipes() or name.endswith(".json")
    if "/" in name and not is_recipe:
        raise ValueError(unknown_recipe(name))
    built: Any = load_recipe(name).build() if is_recipe else None
    config = model_config(name) if built is None else built.config
    config = read(type(config), options, f"show {name}", default=config)
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    model = create_model(config.owner.name, **values)
    cost = model_cost(model)
    say(f"{name}: {model.attention_expression()}" + (f"; between stages: {config.shrink}" if hasattr(config, "shrink") else ""))
    columns = ("layer", "attention", "tokens", "parameters", "multiply-adds", "of the mechanism", "kept for backward")
    table(
        columns,
        [
            (
                str(c.layer),
                c.attention,
                *map(count, (c.tokens, c.parameters, c.multiply_adds, c.core_multiply_adds)),
                megabytes(c.bytes_kept),
            )
            for c in layer_costs(model)
        ],
    )
    say(
        f"whole model, one image: {count(cost.parameters.all)} parameters ({count(cost.parameters.modules)} in modules), "
        f"{count(cost.multiply_adds)} multiply-adds, {megabytes(cost.bytes_kept)} kept for backward"
    )


def overview(args: Sequence[str]) -> None:
    read(Nothing, args, "overview")
    from vixformer.measure.load import watched
    from vixformer.measure.overview import every_attention
    from vixformer.measure.overview import overview as measured

    batch = 8
    say(f"ViTs for 32 x 32 images, width 128, depth 4, 4 heads; patches of 4 and of 1; times for {batch} images, inference, min of n")
    with Console(stderr=True).status("building and timing"), watched() as timing:
        rows = measured(every_attention(), batch=batch)
    exact = {row.tokens: row.ms for row in rows if row.attention == "softmax"}
    table(
        ("attention", "tokens", "parameters", "multiply-adds", "ms", "x exact"),
        [
            (
                r.attention,
                *map(count, (r.tokens, r.parameters.all, r.multiply_adds)),
                f"{r.ms:.1f}",
                f"{r.ms / exact[r.tokens]:.2f}",
            )
            for r in rows
        ],
    )
    small = min(exact)
    slower = [r for r in rows if r.tokens == small and r.ms > exact[small]]
    say(f'"x exact" above 1 is slower than exact attention, as {len(slower)} of {len(rows) // len(exact) - 1} are at {small} tokens.')
    say(timing.told())


def recipes(args: Sequence[str]) -> None:
    from vixformer.recipes import list_recipes, load_recipe, unknown_recipe

    names: set[str] = set()
    for pattern in args or ["*"]:
        found = list_recipes(pattern)
        if not found:
            inside = list_recipes(f"{pattern}/*")
            hint = f"""no recipe is called "{pattern}"; there are {len(inside)} called '{pattern}/*'"""
            raise ValueError(hint if inside else unknown_recipe(pattern))
        names.update(found)
    rows = []
    for name in sorted(names, key=_by_numbers):
        r = load_recipe(name)
        pos, weights = getattr(r.model, "pos", ""), r.train.weights or ""
        rows.append((name, r.data.name, r.model.attention, pos, weights, str(r.train.epochs), str(r.train.batch_size), f"{r.train.lr:g}"))
    titles = ("recipe", "data", "attention", "positions", "from", "epochs", "batch", "rate")
    # what few differ in, where some were asked for: the whole list would be too wide
    some = len(names) < len(list_recipes("*"))
    kept = [i for i, title in enumerate(titles) if title not in ("positions", "from") or (some and len({row[i] for row in rows}) > 1)]
    table([titles[i] for i in kept], [[row[i] for i in kept] for row in rows])
    say(f"{len(names)} recipe{'' if len(names) == 1 else 's'}")


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """So that 16 comes before 128."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def runs(args: Sequence[str]) -> None:
    from vixformer.results.records import recorded_runs
    from vixformer.results.runs import RECIPE, list_runs

    if len(args) > 1 or any(not arg or arg.startswith("-") for arg in args):
        raise ValueError(f"vix runs takes one folder and no options, not {' '.join(args) or 'an empty name'}")
    folder = Path(args[0] if args else "runs")
    odd: list[str] = []
    found = [*list_runs(folder, odd.append), *recorded_runs(folder, odd.append)]
    if not found and (folder / RECIPE).exists():
        raise ValueError(f"{folder} is a run: give the folder that it is in, {folder.parent}")
    if not found and odd:
        raise ValueError(f"no run in {folder} can be read: {odd[0]}")
    if not found:
        raise ValueError(f'{folder} has no runs: "vix train quick/exact --out {folder}" makes one')
    rows = []
    for run in found:
        s = run.summary
        state = ("", "", "", "", "") if s is None else _summarised(s)
        epochs = f"{len(run.history())} of {run.recipe.train.epochs}"
        parent = "" if run.recipe.train.weights is None else Path(run.recipe.train.weights).name
        rows.append((run.folder.name, run.recipe.data.name, parent, "done" if s else "not finished", epochs, *state))
    titles = ("run", "data", "from", "state", "epochs", "parameters", "top-1 %", "train s", "inference ms", "memory, MiB")
    kept = [i for i, title in enumerate(titles) if title != "from" or any(row[i] for row in rows)]
    table([titles[i] for i in kept], [[row[i] for i in kept] for row in rows])
    for problem in odd:
        say(f"left out: {problem}")


def _summarised(s: dict[str, Any]) -> tuple[str, ...]:
    inference = f"{s['inference_ms_mean']:.1f} ± {s['inference_ms_sd']:.1f}" if "inference_ms_mean" in s else ""
    memory = f"{s['peak_train_mb']:.0f}" if "peak_train_mb" in s else ""
    return count(s["parameters"]), f"{s['test_top1']:.2f}", f"{s['train_seconds']:.0f}", inference, memory
