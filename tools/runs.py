"""Runs worth keeping: what is small of a run folder goes to docs/results/runs, and comes back from there.

python -m tools.runs collect /tmp/runs     finished runs of these folders, by the name of their recipe and their seed
python -m tools.runs time 'hybrid/imagenet/*'     20 (--steps) training steps and inferences each, in turn; --elsewhere: a second machine's
python -m tools.runs twins cifar-kernels/ftheta 'performer(kernel=relu, features=512)'     the same beside its twin with that attention
python -m tools.runs memory 'xformers/cifar10/*' --batch 8     peaks of a training step, exact attention also without a fused kernel
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch

from vixformer import list_recipes, load_recipe
from vixformer.results.runs import HISTORY, RECIPE, SUMMARY, Run, list_runs
from vixformer.writing import write_json

RESULTS = Path(__file__).parent.parent / "docs/results"
TIMINGS = RESULTS / "timings"
ELSEWHERE = TIMINGS / "elsewhere"
"""Of a second machine."""


@dataclass(frozen=True)
class Kept:
    recipe: dict[str, Any]
    summary: dict[str, Any]
    history: list[dict[str, Any]]


def kept_runs() -> dict[str, list[Kept]]:
    """By recipe, in the order of seeds."""
    found: dict[str, list[Kept]] = {}
    for path in sorted((RESULTS / "runs").glob(f"**/{SUMMARY}")):
        name = str(path.parent.parent.relative_to(RESULTS / "runs"))
        history = [json.loads(line) for line in (path.parent / HISTORY).read_text().splitlines()]
        found.setdefault(name, []).append(Kept(json.loads((path.parent / RECIPE).read_text()), json.loads(path.read_text()), history))
    return found


def collect(folders: list[Path]) -> None:
    for run in (run for folder in folders for run in list_runs(folder) if run.summary is not None):
        name = next(n for n in list_recipes() if run.folder.name.startswith(n.replace("/", "-") + "-seed"))
        fold = "" if run.recipe.data.folds is None else f"-fold{run.recipe.data.fold}"
        keep(run, RESULTS / "runs" / name / f"seed{run.recipe.train.seed}{fold}")


def keep(run: Run, target: Path) -> None:
    """What is small of a run, without where its data and the run it began from were."""
    target.mkdir(parents=True, exist_ok=True)
    summary = dict(run.summary or {})
    if len(summary["confusion"]) > 20:
        del summary["confusion"]  # tens of thousands of numbers
    recipe = replace(run.recipe, data=replace(run.recipe.data, root=None))
    if recipe.train.weights is not None:
        parent = Path(recipe.train.weights).name
        recipe = replace(recipe, train=replace(recipe.train, weights=parent))
        summary["conversion"] = {**summary["conversion"], "parent": parent}
    write_json(target / SUMMARY, summary)
    shutil.copy(run.folder / HISTORY, target)
    (target / RECIPE).write_text(recipe.to_json())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("collect").add_argument("folders", nargs="+", type=Path)
    timing = commands.add_parser("time")
    timing.add_argument("patterns", nargs="+")
    twins = commands.add_parser("twins")
    twins.add_argument("recipe")
    twins.add_argument("attention")
    memory = commands.add_parser("memory")
    memory.add_argument("patterns", nargs="+")
    for command in (timing, twins, memory):
        command.add_argument("--batch", type=int)
        command.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    for command in (timing, twins):
        command.add_argument("--steps", type=int, default=20)
        command.add_argument("--elsewhere", dest="folder", action="store_const", const=ELSEWHERE, default=TIMINGS)
    options = parser.parse_args()
    if options.command == "collect":
        collect(options.folders)
        return
    from tools.timings import MEMORY, measure_memory, measure_time  # which need what is above

    folder = MEMORY if options.command == "memory" else options.folder
    folder = folder if options.device == "cpu" else folder / options.device
    if options.command == "twins":
        recipe = load_recipe(options.recipe)
        twin = replace(recipe, model=replace(recipe.model, attention=options.attention))
        path = folder / f"{options.recipe.replace('/', '-')}-twin.json"
        both = {options.recipe: recipe, f"{options.recipe}/twin": twin}
        return measure_time(both, path, options.batch, options.steps, torch.device(options.device))
    for pattern in options.patterns:
        chosen = {name: load_recipe(name) for name in list_recipes() if fnmatch(name, pattern)}
        path = folder / f"{re.sub('[^a-z0-9]+', '-', pattern.replace('*', 'all')).strip('-')}.json"
        if options.command == "memory":
            measure_memory(chosen, path, options.batch, options.device)
        else:
            measure_time(chosen, path, options.batch, options.steps, torch.device(options.device))


if __name__ == "__main__":
    main()
