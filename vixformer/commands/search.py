"""Search for better settings of a recipe, with as many workers as you start."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import NonNegativeInt

from vixformer.commands.flags import (
    Count,
    Folds,
    RecipeName,
    Seed,
    asked_recipe,
    make_folder,
    recipe_sections,
    with_short_forms,
)
from vixformer.experiments.search.study import METRICS, Found, Plan, Spectator, Standing, described, search
from vixformer.jsonfile import Values
from vixformer.options import Changes, Folder, Means, needed, sections, words
from vixformer.tables import Shown, say, table
from vixformer.terminal import StatusLine, time_left

if TYPE_CHECKING:
    from vixformer.config import Recipe


Metric = Annotated[str, Means("a column of the summary", "METRIC", METRICS.keys)]


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    recipe: RecipeName = words(
        missing='which recipe? write "vix search cifar-kernels/relu --space cifar-kernels/relu --trials 20"'
    )
    """Name of a recipe, or a JSON file with one."""
    space: str = needed(
        'which space? add --space with a name, a JSON file or text, such as --space "train.lr=1e-4..1e-2:log"'
    )
    """Search space: its name, a JSON file, or text such as "train.lr=1e-4..1e-2:log; train.batch_size=64|128"."""
    trials: Count | None = None
    """Number of trials of all workers together; a grid needs none."""
    sampler: Literal["tpe", "grid", "random"] = "tpe"
    """Method that chooses the settings of the next trial."""
    pruner: Literal["median", "hyperband", "none"] = "median"
    """Method that stops trials early if they fall behind."""
    metric: Metric = "val_top1"
    """Column of the summary to optimize."""
    minimize: Metric | None = None
    """A second goal, such as inference_ms: the Pareto front of both is kept."""
    folds: Folds | None = None
    """Cross-validate every trial on this number of folds."""
    epochs: NonNegativeInt | None = None
    """Number of epochs of a trial; short for --train.epochs."""
    seed: Seed = 0
    """Random seed of the sampler."""
    study: str | None = None
    """Name that the workers of one study share. Left out: the recipe and the sampler."""
    storage: str | None = None
    """Where workers share the study: sqlite:///FILE or postgresql://... Left out: a file in the folder of --out."""
    heartbeat: Count | None = None
    """Seconds between two heartbeats of a worker."""
    out: Folder = Path("runs/search")
    """Folder for the runs. Rerun the same command to resume the study."""
    changes: Changes = sections(recipe_sections)


def run(options: Options) -> None:
    importlib.import_module("vixformer.experiments.search.spaces")  # so that their names are known
    from vixformer.experiments.search.space import read_space

    name = options.recipe
    recipe = asked_recipe(name, with_short_forms(options.changes, {"train.epochs": options.epochs}), "search")
    if recipe.data.target:
        raise ValueError("vix search compares classes, and data.target predicts numbers: try learning rates with"
                         ' "vix compare --tune"')  # fmt: skip
    plan = Plan(
        name=options.study or f"{name}-{options.sampler}",
        recipe=replace(recipe, train=replace(recipe.train, track_test=False)),
        space=read_space(options.space),
        trials=options.trials,
        sampler=options.sampler,
        pruner=options.pruner,
        metric=options.metric,
        minimize=options.minimize,
        folds=options.folds,
        seed=options.seed,
    )
    make_folder(options.out, "--out")
    with Progress() as watch:
        found = search(plan, options.out, options.storage, options.heartbeat, watch)
    _show(plan, found)


class Progress(StatusLine, Spectator):
    """One line that moves, and one that stays for each trial."""

    def __init__(self) -> None:
        super().__init__("rerun the same command to resume the study")
        self.began, self.mine = time.perf_counter(), 0

    def trial_begins(self, number: int, recipe: Recipe, standing: Standing) -> None:
        self.now(f"trial {number}: {recipe.model.attention}; {_stands(standing)}")

    def epoch_done(self, number: int, record: Values) -> None:
        val = f", val {record['val_top1']:.1f} %" if "val_top1" in record else ""
        self.now(f"trial {number}: epoch {record['epoch']}{val}")

    def trial_done(self, number: int, state: str, reason: str | None, standing: Standing) -> None:
        self.mine += 1
        left = max(0, standing.wanted - standing.done - standing.pruned)
        each = (time.perf_counter() - self.began) / self.mine / max(standing.running + 1, 1)
        self.stays(
            f"trial {number}: {state}{f' ({reason})' if reason else ''}; {_stands(standing)}"
            + (f"; {time_left(left * each)}" if left else "")
        )

    def waiting(self, standing: Standing) -> None:
        self.now(f"waiting for other workers; {_stands(standing)}")


def _stands(standing: Standing) -> str:
    best = "" if standing.best is None else f", best {' and '.join(map(_figure, standing.best))} ({standing.attention})"
    return (
        f"{standing.done + standing.pruned} of {standing.wanted} done, {standing.pruned} pruned, {standing.running}"
        f" running{best}"
    )


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
