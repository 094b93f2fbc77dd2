"""Runs that may stand in one table: of one budget, and of recipes as they are today, or as they were when the runs were made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tools.pages.tables import SETS
from tools.runs import Kept
from vixformer.config import recipe_from_dict
from vixformer.results.evidence import Effect, averaged, effect
from vixformer.results.groups import counted
from vixformer.results.runs import Repetition, repetition

SCALED = {"train.warmup", "train.step_every", "train.restart_every"}
"""What a smaller budget shortens, too: no other version of the recipe."""


@dataclass(frozen=True, order=True)
class Budget:
    epochs: int
    images: int
    tested: int

    def __str__(self) -> str:
        return f"{counted(self.epochs, 'epoch')} on {self.images:,} images"


@dataclass(frozen=True)
class Block:
    """No cell of it has runs of two budgets, or of two versions of a recipe."""

    budget: Budget
    today: bool
    """Whether its recipes are what they are now."""
    runs: Mapping[str, Sequence[Kept]]

    @property
    def seeds(self) -> int:
        """Of the row that has fewest."""
        return min(map(len, self.runs.values()))

    def values(self, name: str, key: str = "test_top1") -> dict[Repetition, float]:
        return by_repetition(self.runs.get(name, []), lambda run: run.summary.get(key))

    def apart(self, name: str, base: str) -> Effect | None:
        if name == base or name not in self.runs or base not in self.runs:
            return None
        return effect(self.values(name), self.values(base), self.budget.tested)


def by_repetition(runs: Iterable[Kept], value: Callable[[Kept], float | None]) -> dict[Repetition, float]:
    """The mean of each seed and split, whose folds are one repetition."""
    known = [(repetition(recipe_from_dict(run.recipe, "a kept run")), found) for run in runs if (found := value(run)) is not None]
    return averaged(known)


def blocks(names: Iterable[str]) -> list[Block]:
    """What is shown first comes first: recipes as they are today, then those with all rows, then the larger budget."""
    names = list(names)
    found: dict[tuple[Budget, bool, int], dict[str, list[Kept]]] = {}
    for name in names:
        for runs in SETS.get(name, []):
            budget, today = _budget(runs[0]), SCALED.issuperset(runs[0].differs)
            rank = 0
            while name in found.setdefault((budget, today, rank), {}):
                rank += 1
            found[budget, today, rank][name] = runs
    made = [Block(budget, today, runs) for (budget, today, _), runs in found.items()]
    return sorted(made, key=lambda b: (b.today and len(b.runs) > 1, len(b.runs) == len(names), _size(b), len(b.runs)), reverse=True)


def _size(block: Block) -> int:
    return block.budget.epochs * block.budget.images


def _budget(run: Kept) -> Budget:
    return Budget(run.recipe["train"]["epochs"], run.summary["train_images"], run.summary["test_images"])


def best_for(one: Sequence[str], other: Sequence[str]) -> list[Block]:
    """Blocks with runs of both sides, those first that can decide something."""
    both = [b for b in blocks([*one, *other]) if any(n in b.runs for n in one) and any(n in b.runs for n in other)]
    return sorted(both, key=lambda b: (b.today, b.seeds > 1, _size(b)), reverse=True)
