"""The main job: several recipes under one protocol, over seeds, and one table."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vixformer.backbones.base import BEST, from_pretrained
from vixformer.config import Recipe
from vixformer.measure.latency import Timing, interleaved
from vixformer.results.files import write_json
from vixformer.results.runs import SUMMARY, Spread, column, data_digest, folder_of, read_run
from vixformer.results.statistics import by_seed
from vixformer.training.budget import Cut, Prober, cut
from vixformer.training.lanes import BESIDE, Lanes, share_of_threads
from vixformer.training.loop import parent_run
from vixformer.training.observer import Observer
from vixformer.training.start import asks_for_weights, parent_of

TIMED_BATCH = 64
BUDGETS = "budgets.json"
PROBING = 0.1
"""The part of a budget that timing may take."""


@dataclass(frozen=True)
class Row:
    """One recipe over its seeds and folds."""

    name: str
    attention: str
    seeds: int
    folds: int | None
    parameters: int
    test_top1: Spread
    by_seed: dict[int, float]
    """Test top-1; the mean of its folds, where there are some."""
    val_top1: Spread | None
    train_seconds: Spread
    inference: Timing
    """Of a batch of 64, all models in turn."""
    kept: int | None
    """Bytes for backward, an image."""
    peak: float | None
    """MiB in training, where it was measured."""
    folders: tuple[Path, ...]


@dataclass(frozen=True)
class Comparison:
    rows: list[Row]
    cut: Cut | None = None
    """What a budget allowed."""
    shortened: bool = False
    """Whether that is less than any of the recipes says."""
    not_run: tuple[str, ...] = ()
    """Runs that a budget left no time for, or that lack something."""
    jobs: int = 1
    """Trainings at a time."""


def compare(
    recipes: dict[str, Recipe],
    out: str | Path,
    *,
    seeds: int = 1,
    folds: int | None = None,
    again: bool = False,
    budget: float | None = None,
    jobs: int = 1,
    observer: Callable[[str, Recipe, bool], Observer] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Train what is not there yet, then measure all together. `observer(name, recipe, done)` is asked for one before each run.

    `budget` is seconds for everything: all recipes are cut alike, to what a probe says will fit, and what still does not is not run.
    `jobs` trainings run at a time, processes that share the threads.
    """
    out = Path(out)
    began = time.perf_counter()
    not_run = [
        f"{name} (it starts from a trained model: give --train.weights FOLDER)" for name, r in recipes.items() if asks_for_weights(r)
    ]
    recipes = {name: recipe for name, recipe in recipes.items() if not asks_for_weights(recipe)}
    if not recipes:
        raise ValueError(f"nothing to train: {'; '.join(not_run)}")
    parents = dict(found for found in map(parent_of, recipes.values()) if found is not None and found[0] not in recipes)
    among = {**parents, **recipes}
    limits = None if budget is None else _cut(among, out, seeds * (folds or 1), budget, jobs, tell)
    shortened = limits is not None and (limits.fraction < 1 or any(r.train.epochs > limits.epochs for r in among.values()))
    if limits is not None:
        among = {name: limits.applied(recipe) for name, recipe in among.items()}
    recipes = {name: among[name] for name in recipes}
    folders: dict[str, list[Path]] = {name: [] for name in recipes}
    digests: dict[Any, str] = {}
    # seed by seed, so that if time runs out all recipes have as many
    plans = [[(name, planned) for planned in _plan(recipe, seeds, folds)] for name, recipe in recipes.items()]
    with Lanes(jobs) as lanes:

        def watching(name: str, recipe: Recipe, done: bool = False) -> Observer:
            return observer(_label(name, recipe, seeds), recipe, done) if observer else Observer()

        for round_ in zip(*plans, strict=True):
            started = [parent_run(recipe, out, among) for _, recipe in round_]
            for parent in {p.folder: p for p in started if p is not None and not (p.folder / SUMMARY).exists()}.values():
                watch = watching(parent.name, parent.recipe)
                lanes.train(parent.name, parent.recipe, parent.folder, resume=True, observer=watch)
            if any(started):
                lanes.wait()
            for (name, recipe), parent in zip(round_, started, strict=True):
                recipe = recipe if parent is None else parent.started(recipe)
                key = (recipe.data.name, recipe.data.root, recipe.data.resize)
                if key not in digests:
                    source = recipe.data.source()
                    digests[key] = data_digest(source.read("train"), source.read("test"))
                folder = folder_of(out, name, recipe, digests[key])
                done = (folder / SUMMARY).exists() and not again
                label = _label(name, recipe, seeds)
                if not done:
                    lanes.wait(jobs - 1)
                if not done and budget is not None and lanes.longest and time.perf_counter() - began + lanes.longest > budget:
                    not_run.append(label)
                    continue
                watch = watching(name, recipe, done)
                if not done:
                    lanes.train(label, recipe, folder, resume=not again, observer=watch)
                folders[name].append(folder)
        lanes.wait()
    tell(f"timing inference of {len(folders)} models in turn")
    rows = _rows({name: paths for name, paths in folders.items() if paths}, folds)
    return Comparison(rows, limits, shortened, tuple(not_run), jobs)


def _cut(recipes: dict[str, Recipe], out: Path, runs_each: int, budget: float, jobs: int, tell: Callable[[str], None]) -> Cut:
    """Measured once: asked the same again, what was chosen stays, so that what was trained is found."""
    what = [{n: r.to_dict() for n, r in recipes.items()}, runs_each, budget, jobs]
    asked = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]
    path = out / BUDGETS
    known = json.loads(path.read_text()) if path.exists() else {}
    if asked not in known:
        began, prober = time.perf_counter(), Prober(PROBING * budget)
        probes = []
        with share_of_threads(jobs):
            for i, (name, recipe) in enumerate(recipes.items()):
                tell(f"timing {name}, {i + 1} of {len(recipes)}")
                probes.append(prober(recipe, len(recipes) - i))
        left = (budget - (time.perf_counter() - began)) * (jobs if jobs == 1 else jobs * BESIDE)
        known[asked] = vars(cut(list(recipes.values()), probes, runs_each, left))
        out.mkdir(parents=True, exist_ok=True)
        write_json(path, known)
    return Cut(**known[asked])


def _plan(recipe: Recipe, seeds: int, folds: int | None) -> Iterator[Recipe]:
    """One recipe a seed, and where there are folds one a seed and fold."""
    for seed in range(recipe.train.seed, recipe.train.seed + seeds):
        seeded = replace(recipe, train=replace(recipe.train, seed=seed))
        if folds is None:
            yield seeded
        else:
            yield from (replace(seeded, data=replace(recipe.data, folds=folds, fold=fold)) for fold in range(folds))


def _label(name: str, recipe: Recipe, seeds: int) -> str:
    """What is running, where one name runs several times."""
    seed = f", seed {recipe.train.seed}" if seeds > 1 else ""
    return name + seed + ("" if recipe.data.folds is None else f", fold {recipe.data.fold + 1} of {recipe.data.folds}")


def _rows(folders: dict[str, list[Path]], folds: int | None) -> list[Row]:
    models: dict[str, Any] = {name: from_pretrained(paths[0] / BEST) for name, paths in folders.items()}
    images = {name: torch.randn(TIMED_BATCH, m.config.in_chans, *m.img_size) for name, m in models.items()}
    with torch.inference_mode():
        timings = interleaved({name: lambda m=m, x=images[name]: m(x) for name, m in models.items()}, seconds=0.5 * len(models), least=10)
    rows = []
    for name, paths in folders.items():
        summaries = [read_run(path).summary or {} for path in paths]
        test, seconds, peak = (column(summaries, key) for key in ("test_top1", "train_seconds", "peak_train_mb"))
        assert test is not None and seconds is not None  # noqa: PT018
        first = summaries[0]
        rows.append(
            Row(
                name=name,
                attention=first["attention"],
                seeds=len({s["seed"] for s in summaries}),
                folds=folds,
                parameters=first["parameters"],
                test_top1=test,
                by_seed=by_seed((s["seed"], s["test_top1"]) for s in summaries),
                val_top1=column(summaries, "val_top1"),
                train_seconds=seconds,
                inference=timings[name],
                kept=first.get("kept_bytes"),
                peak=None if peak is None else peak.mean,
                folders=tuple(paths),
            )
        )
    return rows
