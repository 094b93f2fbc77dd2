"""Trainings in rounds, one of every model a round: what is there already is not trained again, and a budget ends
between rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vixformer.config import Data, Recipe
from vixformer.conversion.parent import parent_run
from vixformer.data.dataset import Whole
from vixformer.experiments.lanes import Lanes
from vixformer.results.runs import SUMMARY, folder_of, read_run
from vixformer.training.observer import Observer
from vixformer.training.parts import Reader

Unit = tuple[int, int | None]
"""A seed, and a fold where there are folds."""
Folders = dict[str, dict[Unit, Path]]
"""The run of each row and unit."""


@dataclass(frozen=True)
class Training:
    row: str
    """What it is a repetition of."""
    name: str
    """Of its recipe."""
    recipe: Recipe
    label: str
    unit: Unit


class Rounds:
    def __init__(
        self,
        lanes: Lanes,
        out: Path,
        among: Mapping[str, Recipe],
        left: Callable[[], float] | None,
        label: Callable[[str, Recipe], str],
        *,
        read: Reader,
        again: bool = False,
        observer: Callable[[str, Recipe, bool], Observer] | None = None,
    ) -> None:
        """`among` are recipes that others may start from. `left` says how many seconds of a budget are left, `label`
        what the training of a parent is called. `read` gives data sets."""
        self.lanes, self.out, self.among, self.left, self.label, self.again = lanes, out, among, left, label, again
        self.observer = observer or (lambda *_: Observer())
        self.took: dict[str, float] = {}
        """Seconds of a training, by the name of its recipe."""
        self.waiting: list[str] = []
        """Names of the recipes of trainings that a budget leaves no time for."""
        self.not_run: list[str] = []
        """Their labels."""
        self._names: dict[str, str] = {}
        self.read = read

    def train(self, rounds: Iterable[Sequence[Training]]) -> Folders:
        """Round by round, so that if time runs out all models have as many."""
        folders: Folders = {}
        waited = len(self.waiting)

        def left_for(names: list[str]) -> bool:
            """Whether there is time for these trainings, from the time each took before. One of the models is always
            trained."""
            if self.left is None or not self.lanes.longest or not any(folders.values()):
                return True
            each = [self.took.get(name, self.lanes.longest) for name in names]
            return len(self.waiting) == waited and max(sum(each) / self.lanes.count, *each) <= self.left()

        for number, planned in enumerate(rounds):
            for one in planned:
                folders.setdefault(one.row, {})
            parents = [parent_run(one.recipe, self.out, self._digest(one.recipe.data), self.among) for one in planned]
            missing = {p.folder: p for p in parents if p is not None and not (p.folder / SUMMARY).exists()}
            runs = [
                (one, one.recipe if parent is None else parent.started(one.recipe), parent)
                for one, parent in zip(planned, parents, strict=True)
            ]
            if self.left is not None and number:
                self.wait()
                new = [
                    (one, recipe, parent) for one, recipe, parent in runs
                    if (parent is not None and parent.folder in missing) or not self._finished(self._folder(one.name,
                    recipe))
                ]  # fmt: skip
                wanted = [*(parent.name for parent in missing.values()), *(one.name for one, *_ in new)]
                if wanted and not left_for(wanted):  # a part of a round would be left out of the table
                    self.waiting += wanted
                    self.not_run += [one.label for one, *_ in new]
                    runs, missing = [run for run in runs if run not in new], {}
            for parent in missing.values():
                watch = self.observer(self.label(parent.name, parent.recipe), parent.recipe, False)
                self.lanes.train(
                    parent.name,
                    parent.recipe,
                    parent.folder,
                    resume=True,
                    observer=watch,
                    data=self._whole(parent.recipe.data),
                )
            if any(parents):
                self.lanes.wait()
            for one, recipe, _ in runs:
                folder = self._folder(one.name, recipe)
                done = self._finished(folder)
                if done:
                    self.took.setdefault(one.name, (read_run(folder).summary or {}).get("seconds_in_all", 0.0))
                else:
                    self.lanes.wait(self.lanes.count - 1)
                if not done and not left_for([one.name]):
                    self.waiting.append(one.name)
                    self.not_run.append(one.label)
                    continue
                watch = self.observer(one.label, recipe, done)
                if not done:
                    self._names[one.label] = one.name
                    data = self._whole(recipe.data)
                    self.lanes.train(
                        one.label, recipe, folder, resume=not self.again, observer=watch, name=one.name, data=data
                    )
                folders[one.row][one.unit] = folder
        self.wait()
        return folders

    def wait(self) -> None:
        self.lanes.wait()
        self.took |= {self._names.get(label, label): seconds for label, seconds in self.lanes.took.items()}

    def _folder(self, name: str, recipe: Recipe) -> Path:
        return folder_of(self.out, name, recipe, self._digest(recipe.data))

    def _digest(self, data: Data) -> str:
        digest = self.read.digest(data)
        if self.lanes.count > 1:
            self.read.forget()
        return digest

    def _whole(self, data: Data) -> Whole | None:
        return self.read(data) if self.lanes.count == 1 else None

    def _finished(self, folder: Path) -> bool:
        return (folder / SUMMARY).exists() and not self.again
