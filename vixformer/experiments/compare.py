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

import torch

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
from vixformer.registry import made_of
from vixformer.results.groups import Group
from vixformer.results.runs import Spread, read_run
from vixformer.results.timings import Session, disturbed, keep_session
from vixformer.training.group import refuse_torchrun
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


@dataclass(frozen=True)
class Row(Group):
    """One recipe over its seeds and folds."""

    folds: int | None = None
    """Those that were asked for."""
    rounds: tuple[float, ...] = ()
    """Milliseconds of inference of a batch of 64, all models in turn, round by round."""
    tuned: Tuned | None = None
    """What its learning-rate trials gave."""
    untuned: Spread | None = None
    """Test top-1 of the same seeds at the recipe's own rate."""

    @property
    def test_top1(self) -> Spread:
        found = self.accuracy()
        assert found is not None
        return found

    @property
    def by_seed(self) -> dict[int, float]:
        """The mean of its folds, where there are some."""
        return {seed: value for (seed, _), value in self.repetitions().items()}

    @property
    def seeds(self) -> int:
        return len(self.by_seed)

    @property
    def inference(self) -> Timing:
        return summarized(self.rounds)

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(run.folder for run in self.runs)

    @property
    def epochs(self) -> list[float]:
        """Seconds of every epoch of every run."""
        return [epoch["seconds"] for history in self.histories() for epoch in history if "seconds" in epoch]

    @property
    def disturbed(self) -> bool:
        """Whether other work shared the cores while one of its runs was trained."""
        return any(disturbed(run.summary or {}) for run in self.runs)


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
    if budget is not None:
        refuse_torchrun("--budget")
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
    own = Group(row.name, tuple(map(read_run, untuned))).accuracy()
    return replace(row, tuned=found, untuned=row.test_top1 if found.rate == found.own else own)


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
    known = known_budgets(out)
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
    return known[asked]


def _asked(recipes: dict[str, Recipe], runs_each: int, budget: float, jobs: int) -> str:
    what = [{n: r.to_dict() for n, r in recipes.items()}, runs_each, budget, jobs]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def known_budgets(out: Path) -> dict[str, Cut]:
    path = out / BUDGETS
    what = f"{path} is damaged, delete it to measure again"
    return made_of(dict[str, Cut], read_json(path), what) if path.exists() else {}


def _remember(out: Path, asked: str, chosen: Cut) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / BUDGETS, {key: vars(cut) for key, cut in {**known_budgets(out), asked: chosen}.items()})


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
    rows = [Row(name, tuple(map(read_run, paths)), folds, rounds=tuple(taken[name])) for name, paths in folders.items()]
    return rows, timing
