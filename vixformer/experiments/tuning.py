"""Equal tuning: every model gets the same number of learning-rate trials, chosen on validation with a seed that no
final run has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from vixformer.config import Recipe
from vixformer.experiments.lanes import Lanes
from vixformer.experiments.rounds import Rounds, Training
from vixformer.results.runs import SUMMARY, accuracy, read_run

FACTOR = 3.0
"""Between one rate and the next."""
APART = 1_000_000
"""From the seeds of a recipe's final runs to the seed of its trials."""


@dataclass(frozen=True)
class Tuned:
    """What the trials of one recipe gave."""

    rate: float
    own: float
    """The recipe's rate."""
    tried: tuple[float, ...]
    diverged: tuple[float, ...] = ()

    def applied(self, recipe: Recipe) -> Recipe:
        return replace(recipe, train=replace(recipe.train, lr=self.rate))

    @property
    def at_the_end(self) -> bool:
        """Whether a rate beyond those tried may be better."""
        return len(self.tried) > 1 and self.rate in (min(self.tried), max(self.tried))


def rates(own: float, count: int) -> list[float]:
    """The recipe's own rate first, then its neighbors on both sides, to three digits."""
    if count < 3 or count % 2 == 0:
        raise ValueError(
            f"--tune must be an odd number of at least 3, so that the recipe's own rate is in the middle, not {count}"
        )
    steps = [sign * step for step in range(1, count // 2 + 1) for sign in (-1, 1)]
    return [own, *(float(f"{own * FACTOR**step:.3g}") for step in steps)]


def check_tunable(recipes: dict[str, Recipe], count: int, folds: int | None) -> None:
    for name, recipe in recipes.items():
        rates(recipe.train.lr, count)
        if folds is None and recipe.data.folds is None and not recipe.data.val_fraction:
            raise ValueError(f"--tune chooses on validation images, and {name} has none: give --data.val-fraction 0.1")
        if recipe.train.epochs == 0:
            raise ValueError(f"--tune needs a training, and {name} has 0 epochs: give --train.epochs 1 or more")


def tuned(recipes: dict[str, Recipe], count: int, folds: int | None, rounds: Rounds, lanes: Lanes) -> dict[str, Tuned]:
    """The rate of each recipe with the best validation accuracy. Only trials that all recipes have count, so that a
    budget that ends early does not favor one of them."""
    plan = [
        [_trial(name, recipe, rates(recipe.train.lr, count)[i], i, folds) for name, recipe in recipes.items()]
        for i in range(count)
    ]
    lanes.may_diverge = True
    try:
        folders = rounds.train(plan)
    finally:
        lanes.may_diverge = False
    complete = [trials for trials in plan if all(folders[one.row] for one in trials)]
    found = {}
    for i, (name, recipe) in enumerate(recipes.items()):
        tops = {trials[i].recipe.train.lr: _validated(folders[trials[i].row].values()) for trials in complete}
        finite = {rate: top1 for rate, top1 in tops.items() if top1 is not None}
        if tops and not finite:
            raise ValueError(
                f"{name} diverged at every rate tried ({', '.join(f'{rate:g}' for rate in tops)}): give a smaller"
                " --train.lr"
            )
        # of equal ones the first: the nearest to its own
        best = max(finite, key=finite.__getitem__, default=recipe.train.lr)
        found[name] = Tuned(best, recipe.train.lr, tuple(tops), tuple(rate for rate in tops if rate not in finite))
    return found


def _trial(name: str, recipe: Recipe, rate: float, number: int, folds: int | None) -> Training:
    """With folds, the first of them validates."""
    folded = replace(recipe, data=replace(recipe.data, folds=folds or recipe.data.folds))
    return Training(f"{name}, trial {number}", name, trial(folded, rate), f"{name}, rate {rate:g}", (0, None))


def trial(recipe: Recipe, rate: float) -> Recipe:
    """Its seed and split are its own."""
    data, train = recipe.data, recipe.train
    data = replace(data, split_seed=(data.split_seed + APART) % 2**32)
    train = replace(train, lr=rate, seed=(train.seed + APART) % 2**32, measure=False, track_test=False, trial=True)
    return replace(recipe, data=data, train=train)


def _validated(folders: Collection[Path]) -> float | None:
    """None where the training diverged."""
    (folder,) = folders
    return accuracy(read_run(folder).summary or {}, "val") if (folder / SUMMARY).exists() else None
