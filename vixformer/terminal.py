"""Reading flags and printing tables: what every command shares."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tyro
from rich import box
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
from rich.table import Table

from vixformer.config import Recipe
from vixformer.registry import checked
from vixformer.training.loop import Observer
from vixformer.training.state import State


@dataclasses.dataclass(frozen=True)
class Nothing:
    pass


def read(config: type[Any], args: Sequence[str], command: str, default: Any = None) -> Any:
    """Flags made from a dataclass; whatever is wrong with them becomes one sentence."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            values = tyro.cli(config, args=list(args), prog=f"vix {command}", default=default)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise ValueError(f'{_sentence(complaint.getvalue())}; "vix {command} --help" lists the options') from None
    return checked(config, {field.name: getattr(values, field.name) for field in dataclasses.fields(config)}, command)


def _sentence(complaint: str) -> str:
    """What tyro says in its box, between the first two rules, and the option it suggests."""
    lines = [line.strip("│| ") for line in complaint.splitlines()]
    rules = [i for i, line in enumerate(lines) if re.search("[─-]{5,}", line)]
    first = " ".join(" ".join(lines[rules[0] + 1 : rules[1]]).split())
    first = re.sub(r"Error parsing (Config: )?", "", first)
    if union := re.match(r"(--\S+): no type matching (.*) could be instantiated from \[(.*?)\]\.", first):
        flag, forms, given = union.groups()
        return f"{flag} must be {_in_words(forms)}, not {given.replace(chr(39), '').replace(',', '')}"
    first = re.sub(r": invalid literal for int\(\) with base 10: (.*)", r" must be a whole number, not \1", first)
    first = re.sub(r": could not convert string to float: (.*)", r" must be a number, not \1", first)
    near = re.search(r"Perhaps you meant:\s+(--[\w.-]+)", " ".join(lines))
    return first[:1].lower() + first[1:] + (f"; did you mean {near[1]}?" if near else "")


def _in_words(forms: str) -> str:
    """tyro's {None}|INT|{INT INT}, for people."""
    words = {"INT": "a whole number", "FLOAT": "a number", "{None}": "None", "{INT INT}": "two whole numbers", "STR": "a word"}
    return " or ".join(words.get(form, form) for form in forms.split("|"))


def count(n: int) -> str:
    return f"{n:,}"


def megabytes(n: int) -> str:
    return f"{n / 2**20:.2f} MiB"


def console() -> Console:
    # A pipe has no width; a table cut to 80 columns would lose what it was asked for.
    return Console(width=shutil.get_terminal_size((160, 40)).columns if sys.stdout.isatty() else 160, highlight=False)


def say(text: str) -> None:
    if text:
        console().print(text, markup=False, soft_wrap=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], grid: bool = False) -> None:
    grid_of = Table(box=box.SIMPLE_HEAD, show_lines=grid)
    numbers = {
        "top-1 %",
        "train s",
        "inference ms",
        "kept, MiB",
        "x train",
        "x inference",
        "x kept",
        "epochs",
        "batch",
        "rate",
        "tokens",
        "parameters",
        "in modules",
        "multiply-adds",
        "of the mechanism",
        "kept for backward",
        "ms",
        "x exact",
        "layer",
    }
    for column in columns:
        grid_of.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        grid_of.add_row(*(cell.replace("[", r"\[") for cell in row))
    console().print(grid_of)


def _watched() -> bool:
    """Bars are for a person at a terminal; a file gets lines."""
    return sys.stderr.isatty()


class Watch(Observer):
    """A bar for the epochs and one for the batches of a run, and where to go on after Ctrl-C."""

    def __init__(self, name: str, recipe: Recipe | None, resume: str) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.bars = Progress(
            *columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True, disable=not _watched()
        )
        self.resume = resume
        self.epochs = self.bars.add_task(name, total=recipe.train.epochs if recipe else None, note="")
        self.batches = self.bars.add_task("batches", note="")
        self.began, self.images = time.perf_counter(), 0

    def __enter__(self) -> Watch:
        self.bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.bars.stop()
        if kind is KeyboardInterrupt:
            print(f"saved; go on with: {self.resume}", file=sys.stderr)

    def next(self, name: str, recipe: Recipe, done: bool) -> Watch:
        note = "is there already" if done else ""
        self.bars.reset(self.epochs, description=name, total=recipe.train.epochs, completed=recipe.train.epochs if done else 0, note=note)
        return self

    def epoch_begins(self, epoch: int, batches: int) -> None:
        self.bars.update(self.epochs, completed=epoch)
        self.bars.reset(self.batches, total=batches)
        self.began, self.images = time.perf_counter(), 0

    def batch_done(self, state: State, loss: float) -> None:
        rate = state.sums["images"] / max(time.perf_counter() - self.began, 1e-9)
        self.bars.update(self.batches, completed=state.batch, note=f"loss {loss:.3f}, {rate:.0f} images/s")

    def epoch_done(self, record: dict[str, Any]) -> None:
        val = f", val {record['val_top1']:.1f} %" if "val_top1" in record else ""
        note = f"train {record['train_top1']:.1f} %{val}"
        self.bars.update(self.epochs, completed=record["epoch"], note=note)
        if not _watched():
            print(f"{self.bars.tasks[0].description}: epoch {record['epoch']}, {note}, {record['seconds']:.1f} s", file=sys.stderr)


@contextlib.contextmanager
def download_bar() -> Iterator[Any]:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not _watched()) as bars:
        tasks: dict[str, Any] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name)
            bars.update(tasks[name], completed=done, total=total)

        yield show
