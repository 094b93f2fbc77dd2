"""`vix search`."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vixformer.commands.flags import asked_recipe, choice, make_folder, take, whole
from vixformer.config import Recipe
from vixformer.experiments.search.study import METRICS, Found, Plan, Spectator, Standing, described, search
from vixformer.terminal import StatusLine, say, table


def search_command(args: Sequence[str]) -> None:
    importlib.import_module("vixformer.experiments.search.spaces")  # so that their names are known
    from vixformer.experiments.search.space import read_space

    words = list(args)
    names = (
        "space",
        "trials",
        "sampler",
        "pruner",
        "metric",
        "minimize",
        "folds",
        "seed",
        "storage",
        "study",
        "out",
        "heartbeat",
        "epochs",
    )
    given = {name: take(words, f"--{name}") for name in names}
    if not words or words[0].startswith("-"):
        raise ValueError('which recipe? write "vix search cifar-kernels/relu --space cifar-kernels/relu --trials 20"')
    if given["space"] is None:
        raise ValueError('over what? give --space: a name, a JSON file, or "train.lr=1e-4..1e-2:log; train.batch_size=64|128"')
    name, *options = words
    if given["epochs"] is not None:
        options += ["--train.epochs", given["epochs"]]
    recipe = asked_recipe(name, options, "search", names)
    plan = Plan(
        name=given["study"] or f"{name}-{given['sampler'] or 'tpe'}",
        recipe=replace(recipe, train=replace(recipe.train, track_test=False)),
        space=read_space(given["space"]),
        trials=None if given["trials"] is None else whole(given["trials"], "--trials"),
        sampler=choice(given["sampler"] or "tpe", ("tpe", "grid", "random"), "--sampler"),
        pruner=choice(given["pruner"] or "median", ("median", "hyperband", "none"), "--pruner"),
        metric=given["metric"] or "val_top1",
        minimize=given["minimize"],
        folds=None if given["folds"] is None else whole(given["folds"], "--folds", least=2),
        seed=whole(given["seed"] or "0", "--seed", least=0),
    )
    beat = None if given["heartbeat"] is None else whole(given["heartbeat"], "--heartbeat")
    out = Path(given["out"] or "runs/search")
    make_folder(out, "--out")
    with Progress() as watch:
        found = search(plan, out, given["storage"], beat, watch)
    _show(plan, found)


class Progress(StatusLine, Spectator):
    """One line that moves, and one that stays for each trial."""

    def __init__(self) -> None:
        super().__init__("the same command goes on with the study")
        self.began, self.mine = time.perf_counter(), 0

    def trial_begins(self, number: int, recipe: Recipe, standing: Standing) -> None:
        self.now(f"trial {number}: {recipe.model.attention}; {_stands(standing)}")

    def epoch_done(self, number: int, record: dict[str, Any]) -> None:
        val = f", val {record['val_top1']:.1f} %" if "val_top1" in record else ""
        self.now(f"trial {number}: epoch {record['epoch']}{val}")

    def trial_done(self, number: int, state: str, reason: str | None, standing: Standing) -> None:
        self.mine += 1
        left = max(0, standing.wanted - standing.done - standing.pruned)
        each = (time.perf_counter() - self.began) / self.mine / max(standing.running + 1, 1)
        time_left = f"{left * each:.0f} s" if left * each < 120 else f"{left * each / 60:.0f} min"
        self.stays(f"trial {number}: {state}{f' ({reason})' if reason else ''}; {_stands(standing)}; about {time_left} left")

    def waiting(self, standing: Standing) -> None:
        self.now(f"waiting for other workers; {_stands(standing)}")


def _stands(standing: Standing) -> str:
    best = "" if standing.best is None else f", best {' and '.join(map(_figure, standing.best))} ({standing.attention})"
    return f"{standing.done + standing.pruned} of {standing.wanted} done, {standing.pruned} pruned, {standing.running} running{best}"


def _show(plan: Plan, found: Sequence[Found]) -> None:
    if not found:
        raise ValueError("no trial came to its end: all were pruned; look at the reasons above, or use --pruner none")
    ways = [f"{'most' if METRICS[m][1] == 'maximize' else 'least'} {m}" for m in plan.metrics]
    say(f"Pareto front of {' against '.join(ways)}:" if plan.minimize else f"Best trial by {ways[0]}:")
    columns = ("trial", *plan.metrics, "attention", "values")
    found = list({f.folders: f for f in found}.values())  # the same runs, tried twice, are one
    table(columns, [(str(f.number), *map(_figure, f.values), f.attention, described(f.params)) for f in found])
    for f in found:
        whose = f"Trial {f.number}" if found[1:] else "Its run" + ("s" if f.folders[1:] else "")
        say(f"{whose}: {', '.join(f.folders)}")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
