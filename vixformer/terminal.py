"""Numbers in words, the table of a comparison, and progress: what every command shares."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from typing_extensions import Self

from vixformer.notes import decoding
from vixformer.results.cells import duration


def count(n: int) -> str:
    return f"{n:,}"


def rounded(value: float) -> str:
    return f"{value:,.{1 if value < 10 else 0}f}"


def megabytes(n: int) -> str:
    return f"{n / 2**20:.2f} MiB"


def time_left(seconds: float) -> str:
    return f"about {duration(seconds)} left"


def watched() -> bool:
    """Bars are for a person at a terminal; a file gets lines."""
    return sys.stderr.isatty()


def bars(*columns: ProgressColumn) -> Progress:
    """What has a name and a bar, and then these columns; nothing is shown where nobody watches."""
    first = TextColumn("{task.description}"), BarColumn()
    return Progress(*first, *columns, console=Console(stderr=True), transient=True, disable=not watched())


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
        self.bars = bars(MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.tasks: dict[str, TaskID] = {}

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
    """Show a progress bar while image files are decoded, which happens once; without a terminal, print one line at the
    start."""
    with contextlib.ExitStack() as bars:
        steps: list[Steps] = []

        def show(done: int, total: int) -> None:
            if not watched():
                if done == 1:
                    print(f"decoding {count(total)} image file{'s' * (total > 1)}", file=sys.stderr)
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
def download_bar() -> Iterator[Callable[[str, int, int | None], None]]:
    with bars(DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()) as shown:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = shown.add_task(name)
            shown.update(tasks[name], completed=done, total=total)

        yield show
