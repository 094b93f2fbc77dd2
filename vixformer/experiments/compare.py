"""The main job: several recipes under one protocol, over seeds, and one table."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from vixformer.backbones.backbone import BEST, from_pretrained
from vixformer.config import Recipe, recipe_from_dict
from vixformer.conversion.parent import asks_for_weights, parent_of
from vixformer.experiments.budget import MEASURING, Cut, Prober, cut, starting
from vixformer.experiments.lanes import BESIDE, Lanes, share_of_threads
from vixformer.experiments.rounds import Folders, Rounds, Training
from vixformer.experiments.tuning import Tuned, check_tunable, tuned
from vixformer.jsonfile import Values, read_json
from vixformer.measure.latency import Timing, rounds, summarized
from vixformer.measure.load import Watched, now, watched
from vixformer.measure.machine import machine
from vixformer.registry import fitted
from vixformer.results.evidence import averaged
from vixformer.results.runs import Repetition, Spread, accuracies, accuracy, column, read_run, repetition
from vixformer.results.timings import Session, disturbed, keep_session
from vixformer.training.observer import Observer
from vixformer.training.parts import Reader
from vixformer.writing import write_json

TIMED_BATCH = 64
LEAST_ROUNDS, MOST_ROUNDS = 10, 400
BUDGETS = "budgets.json"
PROBING = 0.1
"""The part of a budget that timing may take, and the part that measuring the memory of all runs may take."""
GRACE = 0.1
"""The part of a budget by which it may be exceeded, so that a round that nearly fits is trained."""
TIMED = 0.5
"""Seconds of timing the inference of each model."""
HEADROOM = 1.2
"""Factor on the time of earlier trainings, to estimate the budget for the rest."""

UNTUNED = " at its own rate"


class _Cut(TypedDict):
    epochs: Annotated[int, Field(gt=0)]
    fraction: Annotated[float, Field(gt=0, le=1)]
    measure: NotRequired[bool]


@dataclass(frozen=True)
class Row:
    """One recipe over its seeds and folds."""

    name: str
    attention: str
    seeds: int
    folds: int | None
    parameters: int
    test_top1: Spread
    """Of numbers, R2 in per cent; so are the others."""
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
    rounds: tuple[float, ...] = ()
    """Milliseconds of inference, round by round."""
    epochs: tuple[float, ...] = ()
    """Seconds of every epoch of every run."""
    disturbed: bool = False
    """Whether other work shared the cores while one of its runs was trained."""
    tuned: Tuned | None = None
    """What its learning-rate trials gave."""
    untuned: Spread | None = None
    """Test top-1 of the same seeds at the recipe's own rate."""
    target: str = ""
    """What number it predicts, if it does."""
    split: str = ""
    """What says, beside the seed, which images it was trained on."""

    @property
    def repetitions(self) -> dict[Repetition, float]:
        """Test top-1 by what pairs it with the runs of other models."""
        return {(seed, self.split): top1 for seed, top1 in self.by_seed.items()}


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
    left_out: tuple[str, ...] = ()
    """Finished runs of seeds or folds that not all models have: they are not in the rows."""
    enough: float | None = None
    """Seconds of another budget, which are enough for the runs that did not fit."""
    timing: Watched | None = None
    """What else ran during the timing of inference."""
    tune: int | None = None
    """Learning-rate trials that each model was to have."""
    budget: float | None = None
    """Seconds that were given."""


def compare(
    recipes: dict[str, Recipe],
    out: str | Path,
    *,
    seeds: int = 1,
    folds: int | None = None,
    again: bool = False,
    budget: float | None = None,
    jobs: int = 1,
    tune: int | None = None,
    observer: Callable[[str, Recipe, bool], Observer] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Train what is not there yet, then measure all together. `observer(name, recipe, done)` is asked for one before
    each run.

    `budget` is seconds for everything: all recipes are cut alike, to what a probe says will fit, and what still does
    not is not run. `jobs` trainings run in parallel, as processes that share the threads. With `tune`, each recipe
    first gets this number of learning-rate trials. The seeds after that vary the split as well as the start and the
    order.
    """
    out = Path(out)
    began = time.perf_counter()
    not_run = [
        f"{name} (it starts from a trained model: give --train.weights FOLDER)"
        for name, r in recipes.items()
        if asks_for_weights(r)
    ]
    recipes = {name: recipe_from_dict(r.to_dict(), name) for name, r in recipes.items() if not asks_for_weights(r)}
    if not recipes:
        raise ValueError(f"nothing to train: {'; '.join(not_run)}")
    parents = dict(found for found in map(parent_of, recipes.values()) if found is not None and found[0] not in recipes)
    among = {**parents, **recipes}
    if tune is not None:
        check_tunable(recipes, tune, folds)
    runs_each = seeds * (folds or 1) if tune is None else tune + 2 * seeds * (folds or 1)
    read = Reader()
    # beside other work, one thread is faster than several that wait for each other
    threads = torch.get_num_threads()
    share = threads if budget is not None and now().disturbs(threads) else 1
    limits = None if budget is None else _cut(among, out, runs_each, budget, jobs, tell, read, share)
    shortened = limits is not None and (
        limits.fraction < 1 or any(r.train.epochs > limits.epochs for r in among.values())
    )
    uncut = among
    if limits is not None:
        among = {name: limits.applied(recipe) for name, recipe in among.items()}
    recipes = {name: among[name] for name in recipes}
    at_the_end = TIMED * len(recipes)
    left = None if budget is None else lambda: (1 + GRACE) * budget - at_the_end - (time.perf_counter() - began)

    with share_of_threads(share), Lanes(jobs) as lanes:
        rounds = Rounds(
            lanes, out, among, left, partial(_label, seeds=seeds), read=read, again=again, observer=observer
        )
        rates = {} if tune is None else tuned(recipes, tune, folds, rounds, lanes)
        rows = [(name, name, rates[name].applied(recipe) if rates else recipe) for name, recipe in recipes.items()]
        rows += [(name + UNTUNED, name, recipes[name]) for name, found in rates.items() if found.rate != found.own]
        plans = [
            [
                Training(
                    row,
                    name,
                    planned,
                    _label(row, planned, seeds),
                    (planned.train.seed, planned.data.fold if folds else None),
                )
                for planned in _plan(recipe, seeds, folds, vary_split=tune is not None)
            ]
            for row, name, recipe in rows
        ]
        folders = rounds.train(zip(*plans, strict=True))
        enough = None
        if rounds.waiting and limits is not None:
            rest = sum(rounds.took.get(name, lanes.longest) for name in rounds.waiting) / jobs
            enough = 60.0 * math.ceil((HEADROOM * rest + len(recipes)) / 60)
            _remember(out, _asked(uncut, runs_each, enough, jobs), limits)
    not_run += rounds.not_run
    shown, left_out = _shared(folders)
    untuned = {name: shown.pop(name + UNTUNED, []) for name in rates}
    tell(f"timing inference of {len(shown)} models in turn")
    found, timing = _rows(shown, folds, out)
    found = [_with_tuning(row, rates[row.name], untuned[row.name]) for row in found] if rates else found
    return Comparison(found, limits, shortened, tuple(not_run), jobs, tuple(left_out), enough, timing, tune, budget)


def _with_tuning(row: Row, found: Tuned, untuned: list[Path]) -> Row:
    at_own = row.test_top1 if found.rate == found.own else accuracies(read_run(path).summary or {} for path in untuned)
    return replace(row, tuned=found, untuned=at_own)


def _shared(folders: Folders) -> tuple[dict[str, list[Path]], list[str]]:
    """The runs with seeds and folds that all models have, so that means and differences use the same ones; and the
    names of the others."""
    some = {name: units for name, units in folders.items() if units}
    common = set.intersection(*map(set, some.values()))
    if not common:  # the seed that most of them have
        first = max(
            (u for units in some.values() for u in units),
            key=lambda unit: sum(unit in units for units in some.values()),
        )
        common = {first}
    shown = {name: [path for unit, path in units.items() if unit in common] for name, units in some.items()}
    left_out = [
        f"{name}, seed {seed}" + ("" if fold is None else f", fold {fold + 1}")
        for name, units in some.items() for seed, fold in units if (seed, fold) not in common
    ]  # fmt: skip
    return {name: paths for name, paths in shown.items() if paths}, left_out


def _cut(
    recipes: dict[str, Recipe],
    out: Path,
    runs_each: int,
    budget: float,
    jobs: int,
    tell: Callable[[str], None],
    read: Reader,
    share: int,
) -> Cut:
    """Measured once: asked the same again, what was chosen stays, so that what was trained is found."""
    asked = _asked(recipes, runs_each, budget, jobs)
    known = _known(out)
    if asked not in known:
        began = time.perf_counter()
        measure = MEASURING * runs_each * len(recipes) <= PROBING * budget
        prober = Prober(PROBING * budget, read, starting() if jobs > 1 else 0.0)
        probes = []
        with share_of_threads(max(jobs, share)):
            for i, (name, recipe) in enumerate(recipes.items()):
                tell(f"timing {name}, {i + 1} of {len(recipes)}")
                timed = replace(recipe, train=replace(recipe.train, measure=recipe.train.measure and measure))
                probes.append(prober(timed, len(recipes) - i))
        left = budget - TIMED * len(recipes) - (time.perf_counter() - began)
        chosen = cut(list(recipes.values()), probes, runs_each, left if jobs == 1 else left * jobs * BESIDE)
        chosen = replace(chosen, measure=measure)
        _remember(out, asked, chosen)
        return chosen
    return Cut(**known[asked])


def _asked(recipes: dict[str, Recipe], runs_each: int, budget: float, jobs: int) -> str:
    what = [{n: r.to_dict() for n, r in recipes.items()}, runs_each, budget, jobs]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _known(out: Path) -> dict[str, _Cut]:
    path = out / BUDGETS
    return read_budgets(path) if path.exists() else {}


def read_budgets(path: Path) -> dict[str, _Cut]:
    return fitted(dict[str, _Cut], read_json(path), f"{path} is damaged, delete it to measure again")


def _remember(out: Path, asked: str, chosen: Cut) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / BUDGETS, {**_known(out), asked: vars(chosen)})


def _plan(recipe: Recipe, seeds: int, folds: int | None, vary_split: bool) -> Iterator[Recipe]:
    """One recipe a seed, and where there are folds one a seed and fold."""
    for i in range(seeds):
        data = replace(recipe.data, split_seed=recipe.data.split_seed + i) if vary_split else recipe.data
        seeded = replace(recipe, data=data, train=replace(recipe.train, seed=recipe.train.seed + i))
        if folds is None:
            yield seeded
        else:
            yield from (replace(seeded, data=replace(data, folds=folds, fold=fold)) for fold in range(folds))


def _label(name: str, recipe: Recipe, seeds: int) -> str:
    """What is running, where one name runs several times."""
    seed = f", seed {recipe.train.seed}" if seeds > 1 else ""
    return name + seed + ("" if recipe.data.folds is None else f", fold {recipe.data.fold + 1} of {recipe.data.folds}")


def _rows(folders: dict[str, list[Path]], folds: int | None, out: Path) -> tuple[list[Row], Watched]:
    models: Values = {name: from_pretrained(paths[0] / BEST) for name, paths in folders.items()}
    images = {name: torch.randn(TIMED_BATCH, m.in_chans, *m.img_size) for name, m in models.items()}
    calls = {name: lambda m=m, x=images[name]: m(x) for name, m in models.items()}
    with torch.inference_mode(), watched() as timing:
        taken = rounds(calls, TIMED * len(models), LEAST_ROUNDS, most=MOST_ROUNDS)
        facts = machine(torch.device("cpu"))
    taken = {name: [round(ms, 5) for ms in times] for name, times in taken.items()}
    by_run = {paths[0].name: taken[name] for name, paths in folders.items()}
    keep_session(out, Session(TIMED_BATCH, facts, asdict(timing.load), by_run))
    rows = []
    for name, paths in folders.items():
        found = [read_run(path) for path in paths]
        summaries = [run.summary or {} for run in found]
        test, top1s = accuracies(summaries), [accuracy(summary) for summary in summaries]
        seconds, peak = (column(summaries, key) for key in ("train_seconds", "peak_train_mb"))
        assert test is not None and seconds is not None
        first = summaries[0]
        rows.append(
            Row(
                name=name,
                attention=first["attention"],
                seeds=len({s["seed"] for s in summaries}),
                folds=folds,
                parameters=first["parameters"],
                test_top1=test,
                by_seed=averaged((s["seed"], t) for s, t in zip(summaries, top1s, strict=True) if t is not None),
                val_top1=accuracies(summaries, "val"),
                train_seconds=seconds,
                inference=summarized(taken[name]),
                kept=first.get("kept_bytes"),
                peak=None if peak is None else peak.mean,
                folders=tuple(paths),
                rounds=tuple(taken[name]),
                epochs=tuple(epoch["seconds"] for run in found for epoch in run.history() if "seconds" in epoch),
                disturbed=any(map(disturbed, summaries)),
                target=first.get("target", ""),
                split=repetition(found[0].recipe)[1],
            )
        )
    return rows, timing
