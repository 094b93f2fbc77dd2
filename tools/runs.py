"""Runs worth keeping: finished runs go to docs/results/records, a line each, and come back from there.

python -m tools.runs collect /tmp/runs     finished runs of these folders; content that has a record is left as it is
python -m tools.runs time 'hybrid/imagenet/*'     20 (--steps) training steps and inferences each, in turn; --elsewhere: a second machine's
python -m tools.runs twins cifar-kernels/ftheta 'performer(kernel=relu, features=512)'     the same beside its twin with that attention
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
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
from vixformer.results.groups import alike
from vixformer.results.records import add_records, record_of, recorded_runs
from vixformer.results.runs import Run, list_runs, run_name
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts
from vixformer.writing import write_json

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
    """Fields in which the run's recipe is not as its name says today, but for those that a page tells of every run."""

    @property
    def budget(self) -> int:
        """Images trained on, over all epochs."""
        return self.summary["epochs"] * self.summary["train_images"]


def kept_runs() -> dict[str, list[Kept]]:
    """By recipe, in the order of seeds: of several sets the first one of `kept_sets`."""
    return {name: sets[0] for name, sets in kept_sets().items()}


def kept_sets() -> dict[str, list[list[Kept]]]:
    """By recipe, sets of runs that are alike but for seed, split and fold: first those that differ least from today's recipe, and of
    these the ones with the largest budget and the most runs."""
    found: dict[str, dict[str, list[Kept]]] = {}
    for run in recorded_runs(RECORDS):
        assert run.name is not None and run.summary is not None  # noqa: PT018  # as records are
        recipe = run.recipe.to_dict()
        kept = Kept(recipe, run.summary, run.history(), tuple(changed(recipe, run.name)))
        found.setdefault(run.name, {}).setdefault(alike(run) + run.summary.get("data_digest", ""), []).append(kept)
    return {
        name: sorted(sets.values(), key=lambda runs: (len(runs[0].differs), -runs[0].budget, -len(runs)))
        for name, sets in found.items()
    }  # fmt: skip


TOLD = {"train.epochs", "train.batch_size", "train.seed", "train.precision", "train.track_test", "train.measure", "train.weights"}
TOLD |= {"data.fraction", "data.test_fraction", "data.split_seed", "data.fold", "data.root"}
"""What pages say of all runs: budget and repetition."""


def changed(ran: Mapping[str, Any], name: str) -> dict[str, tuple[Any, Any]]:
    """Fields in which a recipe that was run differs from the recipe of that name: what it had, and what the name says today."""
    recipe = load_recipe(name)
    meant = json.loads(json.dumps(recipe.to_dict(whole=True)))
    found = {}
    for part, section in (("data", recipe.data), ("model", recipe.model), ("train", recipe.train)):
        # fields that came after the run was kept had their defaults in it
        missing = {field.name: field.default for field in fields(section) if field.name not in ran[part]}
        for key, value in json.loads(json.dumps({**ran[part], **missing})).items():
            said = meant[part].get(key)
            if f"{part}.{key}" not in TOLD and value != said:
                found[f"{part}.{key}"] = value, said
    return found


def kept_timings(folder: Path = TIMINGS) -> dict[str, dict[str, Any]]:
    """By recipe: what `time` measured."""
    return {name: t for path in sorted(folder.glob("*.json")) for name, t in json.loads(path.read_text()).items()}


def collect(folders: list[Path]) -> int:
    """How many finished runs of these folders had no record yet."""
    found = [run for folder in folders for run in list_runs(folder) if run.summary is not None]
    return add_records(RECORDS, [record_of(run, _recipe_of(run)) for run in found])


def _recipe_of(run: Run) -> str:
    """The recipe after which `vix train` and `vix compare` named the folder; a folder does not say it in another way."""
    fits = [name for name in list_recipes() if run.folder.name.startswith(run_name(name, run.recipe, ""))]
    if not fits:
        raise ValueError(f"{run.folder} is not named after a recipe: folders are called NAME-seed0-0123456789ab, by names of vix recipes")
    return fits[0]


def keep(run: Run, name: str) -> None:
    """Record a finished run of this recipe at once, whatever other processes record meanwhile."""
    add_records(RECORDS, [record_of(run, name)])


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
        print(f"{collect(options.folders)} new records in {RECORDS}")
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
