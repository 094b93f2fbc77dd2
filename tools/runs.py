"""Runs worth keeping: finished runs go to docs/results/records, a line each, and come back from there.

python -m tools.runs collect /tmp/runs     finished runs of these folders; content that has a record is left as it is
python -m tools.runs time 'hybrid/imagenet/*'     20 (--steps) training steps and inferences each, in turn; --elsewhere:
a second machine's python -m tools.runs memory 'xformers/cifar10/*' --batch 8     peaks of a training step, exact
attention also without a fused kernel
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch

from vixformer import list_recipes, load_recipe
from vixformer.options import first_paragraph
from vixformer.recipes import RECIPES
from vixformer.results.groups import alike
from vixformer.results.records import add_records, record_of, recorded_runs
from vixformer.results.runs import Run, list_runs, run_name

RESULTS = Path(__file__).parent.parent / "docs/results"
RECORDS = RESULTS / "records"
TIMINGS = RESULTS / "timings"
ELSEWHERE = TIMINGS / "elsewhere"
"""Of a second machine."""


@dataclass(frozen=True)
class Kept:
    recipe: dict[str, Any]
    summary: dict[str, Any]
    history: list[dict[str, Any]]
    differs: tuple[str, ...] = ()
    """Fields in which the run's recipe is not as its name says today, but for those that a smaller budget changes."""

    @property
    def budget(self) -> int:
        """Images trained on, over all epochs."""
        return self.summary["epochs"] * self.summary["train_images"]


def kept_sets() -> dict[str, list[list[Kept]]]:
    """By recipe, sets of runs that are alike but for seed, split and fold: first those that differ least from today's
    recipe, and of these the ones with the largest budget and the most runs. Learning-rate trials are left out."""
    found: dict[str, dict[str, list[Kept]]] = {}
    for run in recorded_runs(RECORDS):
        if not run.recipe.train.trial:
            found.setdefault(run.name or "", {}).setdefault(
                alike(run) + _summary(run).get("data_digest", ""), []
            ).append(_kept(run))
    return {
        name: sorted(sets.values(), key=lambda runs: (len(runs[0].differs), -runs[0].budget, -len(runs)))
        for name, sets in found.items()
    }  # fmt: skip


def kept_trials() -> dict[str, list[Kept]]:
    """By recipe, the learning-rate trials."""
    found: dict[str, list[Kept]] = {}
    for run in recorded_runs(RECORDS):
        if run.recipe.train.trial:
            found.setdefault(run.name or "", []).append(_kept(run))
    return found


def _kept(run: Run) -> Kept:
    recipe = run.recipe.to_dict()
    return Kept(recipe, _summary(run), run.history(), tuple(sorted(changed(recipe, run.name or "").keys() - CUT)))


def _summary(run: Run) -> dict[str, Any]:
    assert run.summary is not None, "records are of finished runs"
    return run.summary


CUT = {"train.epochs", "train.batch_size", "train.precision", "train.track_test", "train.measure"}
CUT |= {"train.warmup", "train.step_every", "train.restart_every", "data.fraction", "data.test_fraction", "data.resize"}
"""What a smaller budget changes: no other version of the recipe."""
OWN = {"train.seed", "train.weights", "train.device", "train.loggers", "train.compile", "train.shard"}
OWN |= {"data.root", "data.split_seed", "data.fold"}
"""Of a single run."""


def changed(ran: Mapping[str, Any], name: str) -> dict[str, tuple[Any, Any]]:
    """Fields in which a recipe that was run differs from the recipe of that name, but for those of a single run: what
    it had, and what the name says today."""
    meant = stated_in(load_recipe(name).to_dict(whole=True), name)
    return {
        field: (value, meant.get(field))
        for field, value in stated_in(ran, name).items()
        if field not in OWN and value != meant.get(field)
    }


def stated_in(ran: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Every field of a recipe that was run. Those that came after the run was kept had their defaults in it."""
    recipe = load_recipe(name)
    sections = {"data": recipe.data, "model": recipe.model, "train": recipe.train}
    every = {
        part: {field.name: field.default for field in fields(section)} | dict(ran[part])
        for part, section in sections.items()
    }
    return {
        f"{part}.{key}": value for part, some in json.loads(json.dumps(every)).items() for key, value in some.items()
    }


def collect(folders: list[Path]) -> int:
    """How many finished runs of these folders had no record yet."""
    found = [run for folder in folders for run in list_runs(folder) if run.summary is not None]
    return add_records(RECORDS, [record_of(run, _recipe_of(run)) for run in found])


def _recipe_of(run: Run) -> str:
    """What the run says, or, of a run of before, the recipe after which `vix train` and `vix compare` named the
    folder."""
    if run.name in RECIPES:
        return run.name
    fits = [name for name in list_recipes() if run.folder.name.startswith(run_name(name, run.recipe, ""))]
    if not fits:
        raise ValueError(
            f"{run.folder} is not named after a recipe: folders are called NAME-seed0-0123456789ab, by names of vix"
            " recipes"
        )
    return fits[0]


def keep(run: Run, name: str) -> None:
    """Record a finished run of this recipe at once, whatever other processes record meanwhile."""
    add_records(RECORDS, [record_of(run, name)])


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("collect").add_argument("folders", nargs="+", type=Path)
    timing = commands.add_parser("time")
    timing.add_argument("patterns", nargs="+")
    memory = commands.add_parser("memory")
    memory.add_argument("patterns", nargs="+")
    for command in (timing, memory):
        command.add_argument("--batch", type=int)
        command.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    timing.add_argument("--steps", type=int, default=20)
    timing.add_argument("--elsewhere", dest="folder", action="store_const", const=ELSEWHERE, default=TIMINGS)
    options = parser.parse_args()
    if options.command == "collect":
        print(f"{collect(options.folders)} new records in {RECORDS}")
        return
    from tools.timings import MEMORY, measure_memory, measure_time  # which need what is above

    folder = MEMORY if options.command == "memory" else options.folder
    folder = folder if options.device == "cpu" else folder / options.device
    for pattern in options.patterns:
        chosen = {name: load_recipe(name) for name in list_recipes() if fnmatch(name, pattern)}
        path = folder / f"{re.sub('[^a-z0-9]+', '-', pattern.replace('*', 'all')).strip('-')}.json"
        if options.command == "memory":
            measure_memory(chosen, path, options.batch, options.device)
        else:
            measure_time(chosen, path, options.batch, options.steps, torch.device(options.device))


if __name__ == "__main__":
    main()
