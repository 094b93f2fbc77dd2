"""Numbers in words, the table of a comparison, and progress: what every command shares."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from typing_extensions import Self

from vixformer.progress import decoding
from vixformer.results.evidence import MARGIN, effect, explained, judge

if TYPE_CHECKING:  # what is wrong with a command line is said before torch is there
    from vixformer.experiments.compare import Comparison, Row


def count(n: int) -> str:
    return f"{n:,}"


def rounded(value: float) -> str:
    return f"{value:,.{1 if value < 10 else 0}f}"


def megabytes(n: int) -> str:
    return f"{n / 2**20:.2f} MiB"


ALIKE = 0.02
"""Models whose parameters differ by more are not of one size."""


def comparison(
    found: Comparison, against: str | None = None, margin: float = MARGIN
) -> tuple[list[str], list[list[str]], list[str]]:  # fmt: skip
    """Columns, rows and what to know about them, relative to the model called `against`, or else to the first one of exact attention
    alone, or else to the first. Verdicts are against `margin` points."""
    from vixformer.attention.layout import is_exact
    from vixformer.measure.latency import paired_ratio
    from vixformer.results.timings import epochs_ratio

    rows = found.rows
    named = next((r for r in rows if r.name == against), None)
    exact = named or next((r for r in rows if is_exact(r.attention)), rows[0])
    folds, seeds = rows[0].folds, min(r.seeds for r in rows)
    apart = {r.name: d for r in rows if r is not exact and (d := effect(r.repetitions, exact.repetitions)) is not None}
    verdicts = dict(zip(apart, judge([(d, "different", margin) for d in apart.values()]), strict=True))

    def times_training(r: Row) -> str:
        share = r.train_seconds.mean / exact.train_seconds.mean if exact.train_seconds.mean else 1.0
        return "1.00" if r is exact else str(epochs_ratio(r.epochs, exact.epochs, share) or f"{share:.2f}")

    def times_inference(r: Row) -> str:
        if r is exact or not r.rounds:
            return f"{r.inference.min / exact.inference.min:.2f}"
        return str(paired_ratio(r.rounds, exact.rounds))

    columns: dict[str, Callable[[Row], str]] = {
        "model": lambda r: r.name,
        "attention": lambda r: r.attention,
        "parameters": lambda r: count(r.parameters),
        "top-1 %": lambda r: str(r.test_top1),
        "difference": lambda r: str(apart[r.name]) if r.name in apart else "",
        "verdict": lambda r: verdicts[r.name].verdict if r.name in apart else "",
        "rate": lambda r: f"{r.tuned.rate:g}" if r.tuned else "",
        "untuned %": lambda r: str(r.untuned or ""),
        "validation %": lambda r: str(r.val_top1 or ""),
        "train s": lambda r: rounded(r.train_seconds.mean),
        "inference ms": lambda r: f"{r.inference.min:.1f}",
        "memory, MiB": lambda r: "" if r.peak is None else f"{r.peak:.0f}",
        "kept, MiB": lambda r: "" if r.kept is None else f"{r.kept / 2**20:.2f}",
        "x train": times_training,
        "x inference": times_inference,
        "x memory": lambda r: "" if r.peak is None or exact.peak is None else f"{r.peak / exact.peak:.2f}",
    }
    if folds is None:
        del columns["validation %"]
    if found.tune is None:
        del columns["rate"], columns["untuned %"]
    if not apart:
        del columns["difference"], columns["verdict"]
    over = "one seed, which decides nothing: every difference is open" if seeds == 1 else f"mean ± standard deviation over {seeds} seeds"
    if folds is not None:
        runs = rows[0].test_top1.count
        over = f"mean ± standard deviation over {folds} folds" + (f" of {seeds} seeds" if seeds > 1 else ", one seed")
        over += "" if runs == folds * seeds else f", the {runs} of {folds * seeds} that all models have"
    unvalidated = [r.name for r in rows if r.val_top1 is None]
    epoch = "the last epoch" if len(unvalidated) == len(rows) else "the epoch chosen on validation"
    notes = [
        f"Test top-1 at {epoch}, {over}.",
        "Inference of 64 images, min of n, all models in turn; memory is the peak of a training step above the process before it, "
        f"kept is for backward, an image; x is relative to {exact.name}.",
        "x train and x inference have a 95 % interval, over epochs and over pairs of calls; an interval that includes 1 is a tie.",
    ]
    if apart:
        notes.append(f"The difference is to {exact.name}, in points. {explained(margin, apart.values())}")
        unclear = [name for name, judged in verdicts.items() if judged.verdict == "open"]
        if unclear:
            notes.append(f'Open: {", ".join(unclear)}. "vix power" says how many seeds and minutes would decide.')
        sizes = [f"{r.name} ({r.parameters / exact.parameters - 1:+.1%})" for r in rows if abs(r.parameters / exact.parameters - 1) > ALIKE]
        if sizes:
            notes.append(f"Not of the same size as {exact.name}, in parameters: {', '.join(sizes)}.")
    if found.tune is not None:
        notes += _tuning(found.tune, rows)
    if 0 < len(unvalidated) < len(rows):
        notes.append(f"Test top-1 at the last epoch, because there is no validation: {', '.join(unvalidated)}.")
    if found.jobs > 1:
        notes.append(f"Trained {found.jobs} at a time, which share the cores; train s are of that.")
    elif beside := [r.name for r in rows if r.disturbed]:
        notes.append(f"Other work was running while these were trained, so their train s are not reliable: {', '.join(beside)}.")
    if found.timing is not None and (said := found.timing.told(r.inference for r in rows)):
        notes.append(f"Inference: {said}")
    if found.cut is not None:
        part = "all of the training images" if found.cut.fraction == 1 else f"{found.cut.fraction:.1%} of the training images"
        less = "; less than its recipe says." if found.shortened else ", which is all that its recipe says."
        notes.append(f"The budget gave every model {found.cut.epochs} epochs and {part}{less}")
    if found.not_run:
        notes.append(f"Not run: {'; '.join(found.not_run)}.")
    if found.left_out:
        notes.append(f"Not in the table, because not all models have it: {'; '.join(found.left_out)}.")
    if found.enough is not None:
        more = f"{found.enough / 60:.0f}m"
        notes.append(f"The budget was too small for all runs: the same command with --budget {more} does the rest.")
    return list(columns), [[cell(row) for cell in columns.values()] for row in rows], notes


def _tuning(trials: int, rows: Sequence[Row]) -> list[str]:
    done = [r.tuned for r in rows if r.tuned is not None]
    got = min(len(tuned.tried) for tuned in done)
    fewer = "" if got == trials else f" of the {trials} asked for, because the budget left no time for more"
    notes = [
        f"Rate: each model got {got} learning-rate trials{fewer}, a factor of 3 apart around its recipe's rate, with a seed and a split "
        "that no run in the table has; the best on validation was taken. Seeds vary the start, the split and the order. Untuned: the same "
        "seeds at the recipe's own rate."
    ]
    edge = [f"{r.name} ({r.tuned.rate:g})" for r in rows if r.tuned is not None and r.tuned.at_the_end]
    if edge:
        notes.append(
            f"The best rate is the lowest or highest tried, so a rate beyond may be better: {', '.join(edge)}. Try --tune {trials + 2}."
        )
    lost = [f"{r.name} at {', '.join(f'{rate:g}' for rate in r.tuned.diverged)}" for r in rows if r.tuned is not None and r.tuned.diverged]
    if lost:
        notes.append(f"Trials that diverged: {'; '.join(lost)}.")
    return notes


def time_left(seconds: float) -> str:
    amount = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
    return f"about {amount} left"


def watched() -> bool:
    """Bars are for a person at a terminal; a file gets lines."""
    return sys.stderr.isatty()


class StatusLine:
    """A line that changes, and lines that stay above it; in a file only those that stay."""

    def __init__(self, resume: str) -> None:
        self.console, self.resume = Console(stderr=True), resume
        self.status = self.console.status("")

    def __enter__(self) -> Self:
        if watched():
            self.status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.status.stop()
        if kind is KeyboardInterrupt:
            print(f"saved; {self.resume}", file=sys.stderr)

    def now(self, text: str) -> None:
        self.status.update(text.replace("[", r"\["))

    def stays(self, text: str) -> None:
        print(text, file=sys.stderr)


class Steps:
    """A bar that is told what is done, how far it is and of how much."""

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.bars = Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched())
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Steps:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self.tasks:
            self.tasks[what] = self.bars.add_task(what, total=total)
        self.bars.update(self.tasks[what], completed=done)
        if not watched() and done == total:
            print(f"{what}: {total} done", file=sys.stderr)


@contextlib.contextmanager
def decoding_shown() -> Iterator[None]:
    """Show a progress bar while image files are decoded, which happens once; without a terminal, print one line at the start."""
    with contextlib.ExitStack() as bars:
        steps: list[Steps] = []

        def show(done: int, total: int) -> None:
            if not watched():
                if done == 1:
                    print(f"decoding {count(total)} image files", file=sys.stderr)
                return
            if not steps:
                steps.append(bars.enter_context(Steps()))
            steps[0]("decoding image files", done, total)
            if done == total:
                bars.close()
                steps.clear()

        with decoding(show):
            yield


@contextlib.contextmanager
def download_bar() -> Iterator[Any]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched()) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name)
            bars.update(tasks[name], completed=done, total=total)

        yield show
