"""What the experiments ask for, run by run, and which of it has no record yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tools import runs
from vixformer.config import Data, Recipe
from vixformer.documents.claims import matching
from vixformer.experiments.budget import Cut
from vixformer.experiments.tuning import rates, trial
from vixformer.recipes import load_recipe
from vixformer.results.records import Record, read_records
from vixformer.results.runs import content, run_name

RUNS = Path("runs/lab")
"""Folders of runs that are not finished, and of parents that others start from."""


@dataclass(frozen=True)
class Experiment:
    """Recipes that are cut alike and trained with the same seeds."""

    name: str
    rows: tuple[str, ...]
    """Recipes, or patterns of them."""
    epochs: int
    seeds: int
    fraction: float = 1.0
    """The part of the recipe's training images."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of `data` and `train`, such as `data.resize`."""
    tune: int = 0
    """Learning-rate trials for each row, with a seed of their own, before the seeds that count."""
    worth: int = 0
    """Questions it decides beside the documents' claims."""

    def recipes(self) -> dict[str, Recipe]:
        return {name: self._cut(load_recipe(name)) for name in matching(self.rows)}

    def _cut(self, recipe: Recipe) -> Recipe:
        """Schedules keep their shape. Times and memory are measured elsewhere, with nothing else running."""
        recipe = Cut(self.epochs, self.fraction).applied(recipe)
        data = replace(recipe.data, **self._changed("data"))
        train: dict[str, Any] = {"track_test": True, "measure": False, **self._changed("train")}
        return replace(recipe, data=data, train=replace(recipe.train, **train))

    def _changed(self, section: str) -> dict[str, Any]:
        return {
            key.removeprefix(f"{section}."): value
            for key, value in self.changes.items()
            if key.startswith(f"{section}.")
        }


@dataclass(frozen=True)
class Job:
    name: str
    """Of the recipe."""
    recipe: Recipe
    parent: Job | None = None
    """Whose weights it starts from."""

    @property
    def id(self) -> str:
        return content(self._named(), digest(self.recipe.data))

    @property
    def told(self) -> str:
        train = self.recipe.train
        return f"{self.name}, rate {train.lr:g}, trial" if train.trial else f"{self.name}, seed {train.seed}"

    @property
    def folder(self) -> Path:
        return RUNS / run_name(self.name, self.recipe, self.id)

    def started(self) -> Recipe:
        """The recipe to train: its parent's run is where the lab keeps it."""
        if self.parent is None:
            return self.recipe
        return replace(self.recipe, train=replace(self.recipe.train, weights=str(self.parent.folder.resolve())))

    def _named(self) -> Recipe:
        """Known by the name of its parent's folder, wherever that lies and whether it is there."""
        if self.parent is None:
            return self.recipe
        return replace(self.recipe, train=replace(self.recipe.train, weights=self.parent.folder.name))


def jobs(experiment: Experiment, known: Mapping[str, Record], failed: Collection[str] = ()) -> Iterator[Job]:
    """Of a tuned experiment the trials first; the rest follows when they are there: every row at the rate they chose,
    and at its own rate where that is another."""
    recipes = experiment.recipes()
    if experiment.tune:
        tried = {name: list(_trials(name, recipe, experiment.tune)) for name, recipe in recipes.items()}
        yield from (job for some in zip(*tried.values(), strict=True) for job in some)
        if not all(job.id in known or job.id in failed for some in tried.values() for job in some):
            return
        best = {name: _best(some, known) for name, some in tried.items()}
        tuned = {name: replace(recipe, train=replace(recipe.train, lr=best[name])) for name, recipe in recipes.items()}
        yield from _seeds(tuned, experiment.seeds)
        recipes = {name: recipe for name, recipe in recipes.items() if recipe.train.lr != best[name]}
    yield from _seeds(recipes, experiment.seeds)


def foreseen(experiment: Experiment, known: Mapping[str, Record], failed: Collection[str] = ()) -> Iterator[Job]:
    """All runs, in so far as they can be known: until trials have chosen a rate, it is the recipe's own."""
    some = list(jobs(experiment, known, failed))
    yield from some
    if experiment.tune and all(job.recipe.train.trial for job in some):
        yield from _seeds(experiment.recipes(), experiment.seeds)


def _seeds(recipes: Mapping[str, Recipe], count: int) -> Iterator[Job]:
    """Every row's first seed comes before the second of any, so that an experiment can be read at any moment. Seeds
    vary the start, the split and the order."""
    for seed in range(count):
        made: dict[str, Job] = {}
        for name in sorted(recipes, key=lambda name: recipes[name].train.weights is not None):  # parents first
            parent = made.get(recipes[name].train.weights or "")
            made[name] = Job(name, seeded(recipes[name], seed), parent)
        yield from made.values()


def seeded(recipe: Recipe, seed: int) -> Recipe:
    data, train = recipe.data, recipe.train
    return replace(
        recipe, data=replace(data, split_seed=data.split_seed + seed), train=replace(train, seed=train.seed + seed)
    )


def _trials(name: str, recipe: Recipe, count: int) -> Iterator[Job]:
    return (Job(name, trial(recipe, rate)) for rate in rates(recipe.train.lr, count))


def _best(tried: Sequence[Job], known: Mapping[str, Record]) -> float:
    """Of equal ones the first, which is the nearest to the recipe's own."""
    tops = {job.recipe.train.lr: known[job.id]["summary"]["val_top1"] for job in tried if job.id in known}
    return max(tops, key=tops.__getitem__, default=tried[0].recipe.train.lr)


def known_records() -> dict[str, Record]:
    return {record["id"]: record for record in read_records(runs.RECORDS)}


def digest(data: Data) -> str:
    return _digest(data.name, data.root, data.resize)


@cache
def _digest(name: str, root: str | None, resize: int | None) -> str:
    return Data(name=name, root=root, resize=resize).source().whole().digest
