"""A training, watched from a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.progress import (
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from vixformer.config import Recipe
from vixformer.jsonfile import Values
from vixformer.results.runs import RECIPE
from vixformer.terminal import bars, time_left, watched
from vixformer.training.observer import Observer
from vixformer.training.state import State


class Watch(Observer):
    """A bar for the epochs and one for the batches of a run, and how to resume after Ctrl-C."""

    def __init__(
        self, name: str, recipe: Recipe | None, resume: str, folder: Path | None = None, runs: int = 0
    ) -> None:
        """`runs` is how many there will be, where there are several."""
        note = TextColumn("{task.fields[note]}")
        self.bars = bars(MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), note)
        self.name, self.resume, self.folder = name, resume, folder
        self.runs, self.run, self.trained = runs, 0, list[float]()
        self.since: float | None = None
        self.epochs = self.bars.add_task(name, total=recipe.train.epochs if recipe else None, note="")
        self.batches = self.bars.add_task("batches", note="")
        self.began, self.images = time.perf_counter(), 0

    def __enter__(self) -> Watch:
        self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.bars.stop()
        if kind is KeyboardInterrupt:
            nothing = self.folder is not None and not (self.folder / RECIPE).exists()
            print("nothing to save yet" if nothing else f"saved; resume with: {self.resume}", file=sys.stderr)

    def tell(self, what: str) -> None:
        self.bars.update(self.epochs, description=what)
        if not watched():
            print(what, file=sys.stderr)

    def begins_with(self, what: str) -> None:
        self.bars.console.print(what, soft_wrap=True, markup=False)

    def next(self, name: str, recipe: Recipe, done: bool) -> Watch:
        note = "finished before" if done else ""
        self.name, text = name, self._counted(name, done)
        if self.runs and not done and not watched():
            print(text, file=sys.stderr)
        self.bars.reset(
            self.epochs,
            description=text,
            total=recipe.train.epochs,
            completed=recipe.train.epochs if done else 0,
            note=note,
        )
        return self

    def _counted(self, name: str, done: bool) -> str:
        """Run 3 of 12, about 6 min left: as long as those before took on average."""
        now = time.perf_counter()
        if self.since is not None:
            self.trained.append(now - self.since)
        self.since, self.run = None if done else now, self.run + 1
        if not self.runs:
            return name
        self.runs = max(self.runs, self.run)  # parents are trained too
        left = sum(self.trained) / len(self.trained) * (self.runs - self.run + 1) if self.trained else None
        return f"run {self.run} of {self.runs}{'' if left is None else f', {time_left(left)}'}: {name}"

    def side_by_side(self, runs: int) -> Callable[[str, Recipe, bool], Observer]:
        """For runs in parallel: a bar for how many are done, and one for each that is running."""
        self.runs = runs
        self.bars.update(self.epochs, description="runs", total=runs)
        self.bars.update(self.batches, visible=False)

        def beside(name: str, recipe: Recipe, done: bool) -> Observer:
            if done:
                self.bars.advance(self.epochs)
            return Observer() if done else _Bar(self, name, recipe.train.epochs)

        return beside

    def of(self, name: str, recipe: Recipe) -> Watch:
        return self.next(name, recipe, done=False)

    def taught(self, step: int, steps: int, error: float) -> None:
        self.bars.update(self.batches, completed=step, total=steps, note=f"distilling, layers {error:.0%} off")
        if not watched() and step == steps:
            print(f"{self.name}: distilled for {steps} steps, layers {error:.0%} off", file=sys.stderr)

    def epoch_begins(self, epoch: int, batches: int) -> None:
        self.bars.update(self.epochs, completed=epoch)
        self.bars.reset(self.batches, total=batches)
        self.began, self.images = time.perf_counter(), 0

    def batch_done(self, state: State, loss: float) -> None:
        rate = state.sums["images"] / max(time.perf_counter() - self.began, 1e-9)
        self.bars.update(self.batches, completed=state.batch, note=f"loss {loss:.3f}, {rate:.0f} images/s")

    def epoch_done(self, record: Values) -> None:
        self.show(self.epochs, self.name, record)

    def show(self, bar: TaskID, name: str, record: Values) -> None:
        if "train_top1" in record:
            val = f", val {record['val_top1']:.1f} %" if "val_top1" in record else ""
            note = f"train {record['train_top1']:.1f} %{val}"
        else:
            note = f"loss {record['train_loss']:.3f}" + (
                f", val RMSE {rmse:.4g}" if (rmse := record.get("val_rmse")) else ""
            )
        self.bars.update(bar, completed=record["epoch"], note=note)
        if not watched():
            print(f"{name}: epoch {record['epoch']}, {note}, {record['seconds']:.1f} s", file=sys.stderr)


class _Bar(Observer):
    """One of several runs in parallel."""

    def __init__(self, watch: Watch, name: str, epochs: int) -> None:
        self.watch, self.name = watch, name
        self.bar = watch.bars.add_task(name, total=epochs, note="")

    def begins_with(self, what: str) -> None:
        self.watch.begins_with(f"{self.name}: {what}")

    def taught(self, step: int, steps: int, error: float) -> None:
        self.watch.bars.update(self.bar, note=f"distilling, step {step} of {steps}, layers {error:.0%} off")

    def epoch_done(self, record: Values) -> None:
        self.watch.show(self.bar, self.name, record)

    def ends(self) -> None:
        self.watch.bars.remove_task(self.bar)
        self.watch.bars.advance(self.watch.epochs)
        if not watched():
            done, runs = self.watch.bars.tasks[0].completed, self.watch.runs
            left = (time.perf_counter() - self.watch.began) / done * (runs - done)
            print(
                f"{self.name}: done; {done:.0f} of {runs} runs" + (f", {time_left(left)}" if runs > done else ""),
                file=sys.stderr,
            )
