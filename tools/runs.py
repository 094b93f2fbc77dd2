"""Runs worth keeping: what is small of a run folder goes to docs/results/runs, and comes back from there.

python -m tools.runs collect /tmp/runs     finished runs of these folders, by the name of their recipe and their seed
python -m tools.runs time 'hybrid/imagenet/*'     20 (--steps) training steps and inferences each, in turn; --elsewhere: a second machine's
python -m tools.runs twins cifar-kernels/ftheta 'performer(kernel=relu, features=512)'     the same beside its twin with that attention
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.page import alone
from vixformer import list_recipes, load_recipe
from vixformer.config import Recipe
from vixformer.measure.latency import interleaved
from vixformer.measure.machine import machine
from vixformer.results.runs import HISTORY, RECIPE, SUMMARY, Run, list_runs
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts
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


def kept_timings(folder: Path = TIMINGS) -> dict[str, dict[str, Any]]:
    """By recipe: what `time` measured."""
    return {name: t for path in sorted(folder.glob("*.json")) for name, t in json.loads(path.read_text()).items()}


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


def measure_time(recipes: dict[str, Recipe], path: Path, batch: int | None, count: int) -> None:
    """A training step with its optimizer, and inference, of the recipe's own batch unless another is given."""
    keep_freed_memory()
    steps, looks, facts = {}, {}, {}
    for name, recipe in recipes.items():
        parts = load_parts(recipe, torch.device("cpu"))
        model: Any = recipe.build(parts.test.images)
        images, labels = next(parts.train.plain())
        images, labels = images[: batch or len(images)], labels[: batch or len(labels)]
        optimizer = make_optimizer(model, recipe.train)

        def step(m: Any = model, x: Any = images, y: Any = labels, o: Any = optimizer) -> None:
            F.cross_entropy(m.train()(x), y).backward()
            o.step()
            o.zero_grad(set_to_none=True)

        def look(m: Any = model, x: Any = images) -> None:
            with torch.inference_mode():
                m.eval()(x)

        steps[name], looks[name] = step, look
        facts[name] = {"batch": len(images), "train_images": len(parts.train.images) + (0 if parts.val is None else len(parts.val.images))}
    with alone():
        trained, inferred = interleaved(steps, 0, count), interleaved(looks, 0, count)
    for name, fact in facts.items():
        an_epoch = fact["train_images"] / fact["batch"] * trained[name].median / 1e3
        fact |= {"step_ms": vars(trained[name]), "inference_ms": vars(inferred[name]), "seconds_an_epoch": an_epoch}
        fact |= {"machine": machine(torch.device("cpu"))}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("collect").add_argument("folders", nargs="+", type=Path)
    timing = commands.add_parser("time")
    timing.add_argument("patterns", nargs="+")
    twins = commands.add_parser("twins")
    twins.add_argument("recipe")
    twins.add_argument("attention")
    for command in (timing, twins):
        command.add_argument("--batch", type=int)
        command.add_argument("--steps", type=int, default=20)
        command.add_argument("--elsewhere", dest="folder", action="store_const", const=ELSEWHERE, default=TIMINGS)
    options = parser.parse_args()
    if options.command == "collect":
        collect(options.folders)
    elif options.command == "time":
        for pattern in options.patterns:
            chosen = {name: load_recipe(name) for name in list_recipes() if fnmatch(name, pattern)}
            measure_time(chosen, options.folder / f"{pattern.replace('/', '-').replace('*', 'all')}.json", options.batch, options.steps)
    else:
        recipe = load_recipe(options.recipe)
        twin = replace(recipe, model=replace(recipe.model, attention=options.attention))
        path = options.folder / f"{options.recipe.replace('/', '-')}-twin.json"
        measure_time({options.recipe: recipe, f"{options.recipe}/twin": twin}, path, options.batch, options.steps)


if __name__ == "__main__":
    main()
