"""Runs that may stand in one table: of one budget, and of recipes as they are today, or as they were when the runs were
made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tools.pages.tables import EVERY
from tools.runs import CUT, Kept, changed, stated_in
from vixformer import load_recipe
from vixformer.results.evidence import Effect, effect
from vixformer.results.groups import counted

Repetition = tuple[int, int, int]
"""Seed, seed of the split, and fold."""


@dataclass(frozen=True, order=True)
class Budget:
    epochs: int
    images: int
    tested: int
    side: int = 0
    """Pixels; 0: as the images are."""

    def __str__(self) -> str:
        size = f" of {self.side} x {self.side} pixels" if self.side else ""
        return f"{counted(self.epochs, 'epoch')} on {self.images:,} images{size}"


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
        return {
            repetition(run): run.summary[key] for run in self.runs.get(name, []) if run.summary.get(key) is not None
        }

    def apart(self, name: str, base: str) -> Effect | None:
        if name == base or name not in self.runs or base not in self.runs:
            return None
        return effect(self.values(name), self.values(base), self.budget.tested)


def repetition(run: Kept) -> Repetition:
    data = run.recipe["data"]
    return run.summary["seed"], data.get("split_seed", 0), data.get("fold", 0) if data.get("folds") else 0


def blocks(names: Iterable[str]) -> list[Block]:
    """What is shown first comes first: recipes as they are today, then those with all rows, then the larger budget. One
    that has not half as many rows as another, such as an experiment that has just begun, comes after the others."""
    names = list(names)
    found: dict[tuple[Budget, bool, int], dict[str, list[Kept]]] = {}
    for name in names:
        versions: dict[tuple[Budget, bool, str], list[Kept]] = {}
        for run in EVERY.get(name, []):
            version = repr(sorted(changed(run.recipe, name).items()))
            versions.setdefault((_budget(run), not run.differs, version), []).append(run)
        ranks: dict[tuple[Budget, bool], int] = {}
        for (budget, today, _), runs in sorted(versions.items(), key=lambda item: -len(item[1])):
            place = ranks[budget, today] = ranks.get((budget, today), -1) + 1
            found.setdefault((budget, today, place), {})[name] = runs
    made = [Block(budget, today, runs) for (budget, today, _), runs in found.items()]
    most = max((len(block.runs) for block in made), default=0)

    def rank(block: Block) -> tuple[bool, bool, bool, int, int]:
        rows = len(block.runs)
        begun = 2 * rows > most
        return begun and block.today and rows > 1, rows == len(names), begun, _size(block), rows

    return sorted(made, key=rank, reverse=True)


def _size(block: Block) -> int:
    return block.budget.epochs * block.budget.images


def _budget(run: Kept) -> Budget:
    side = run.recipe["data"].get("resize") or 0
    return Budget(run.recipe["train"]["epochs"], run.summary["train_images"], run.summary["test_images"], side)


Version = tuple[Budget, tuple[tuple[str, str], ...]]
"""Of a run: its budget, and what else is not as its recipe says."""
BY_ROW = "model.attention"
"""What sets rows apart, so that it cannot be equal in all of them. It counts where nothing else is changed: such a run
is another row, and none of an earlier version of its recipe."""


def comparable(names: Iterable[str], with_parents: bool = False) -> list[Block]:
    """Runs that may be compared: a block for each version, of the runs that have the same budget and, in each field
    that some run has changed, the same value. `with_parents` adds the epochs of the run that a run started from."""
    runs = {name: [(run, _version(name, run, with_parents)) for run in EVERY.get(name, [])] for name in names}
    versions = dict.fromkeys(version for some in runs.values() for _, version in some)
    made = []
    for version in versions:
        among = {name: [run for run, other in some if _is_of(name, run, other, version)] for name, some in runs.items()}
        among = {name: some for name, some in among.items() if some}
        made.append(Block(version[0], all(not run.differs for some in among.values() for run in some), among))
    return made


def _version(name: str, run: Kept, with_parents: bool) -> Version:
    budget = _budget(run)
    if with_parents:
        budget = replace(budget, epochs=budget.epochs + _parents_epochs(name, run))
    fields = {field: repr(was) for field, (was, _) in changed(run.recipe, name).items() if field not in FREE}
    if set(fields) - CUT != {BY_ROW}:
        fields.pop(BY_ROW, None)
    return budget, tuple(sorted(fields.items()))


FREE = CUT - {"train.batch_size", "train.precision"}
"""What a budget says, or follows from it."""


def _is_of(name: str, run: Kept, own: Version, version: Version) -> bool:
    fields = dict(version[1])
    if own[0] != version[0] or not set(dict(own[1])) <= set(fields):
        return False
    values = stated_in(run.recipe, name) if fields else {}
    return all(repr(values.get(field)) == value for field, value in fields.items())


def _parents_epochs(name: str, run: Kept) -> int:
    """Of the kept run of its parent with the same repetition, budget and changes."""
    parent = load_recipe(name).train.weights
    if parent not in EVERY:
        return 0
    budget = _budget(run)
    found = {
        other.recipe["train"]["epochs"]
        for other in EVERY[parent]
        if repetition(other) == repetition(run)
        and replace(_budget(other), epochs=budget.epochs) == budget
        and other.differs == run.differs
    }
    return found.pop() if len(found) == 1 else 0
