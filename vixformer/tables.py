"""Tables in a terminal, as wide as it is, or as CSV or JSON."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator
from rich.cells import cell_len

from vixformer.options import Means
from vixformer.results.cells import in_markdown

NAMES = ("model", "recipe", "run", "document", "image", "file", "data", "data set", "against")
"""Columns of names, whose folder may be left out if all rows share it."""
EXPRESSIONS = ("attention", "from", "to")
"""Columns of layouts, which may be shortened, with a legend."""
TEXTS = ("exhibit", "what it shows", "positions", "layers", "new", "dropped", "values", "state", "date", "here",
"what it is", "verdict",
         "problem", "train + test", "kernel=", "format", "options and defaults", "folder",
         "resume with")  # fmt: skip
"""Columns of words, which wrap. All other columns are numbers and end where their neighbors end."""
GAP, LEAST_TEXT, LEAST_NAME, LONGEST_LEGEND = 2, 24, 16, 10


def _split(text: object) -> object:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else text


Titles = Annotated[
    tuple[str, ...], BeforeValidator(_split), Means("the names of columns, separated by commas", "A,B,...")
]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Tables"""

    columns: Titles = ()
    """Columns to show, by the first letters of their titles. Left out: as many as fit into the terminal."""
    wide: bool = False
    """Show all columns in full, however wide the terminal is."""
    csv: bool = False
    """Print the tables as CSV."""


@dataclass(frozen=True, kw_only=True)
class Shown(Columns):
    """Tables"""

    json: bool = False
    """Print the tables as JSON."""


@dataclass(frozen=True, kw_only=True)
class Listed(Shown):
    """Tables that cost nothing to print again: an unknown column is an error at once."""


_shown: ContextVar[Columns | None] = ContextVar("shown", default=None)
_kept: ContextVar[list[tuple[str, list[dict[str, object]]]]] = ContextVar("kept")
_wrong: ContextVar[list[str]] = ContextVar("wrong")
"""Columns that were asked for and are not there."""


@contextlib.contextmanager
def tables_as(shown: object) -> Iterator[None]:
    """Inside, tables are printed as these options say. A column that is not there is an error at the end, so that no
    result is lost."""
    found = shown if isinstance(shown, Columns) else Shown()
    tokens = _shown.set(found), _kept.set([]), _wrong.set([])
    try:
        try:
            yield
        finally:  # also of a command that fails after its table
            kept = _kept.get()
            if kept and isinstance(found, Shown) and found.json:
                print(json.dumps(kept[0][1] if len(kept) == 1 else dict(kept), indent=2, ensure_ascii=False))
        if _wrong.get():
            raise ValueError(_wrong.get()[0])
    finally:
        _shown.reset(tokens[0])
        _kept.reset(tokens[1])
        _wrong.reset(tokens[2])


def for_programs() -> bool:
    """Whether standard output is CSV or JSON, which nothing else may be between."""
    shown = _shown.get() or Shown()
    return shown.csv or getattr(shown, "json", False) is True  # --json of some commands is a file


def say(text: str) -> None:
    if text:
        file = sys.stderr if for_programs() else sys.stdout
        lines = text.splitlines() if file.isatty() else []
        print(
            "\n".join(textwrap.fill(line, _width(), break_long_words=False, break_on_hyphens=False) for line in lines)
            or text,
            file=file,
        )


def say_next(*commands: str) -> None:
    """The commands that continue from here, on one line."""
    say(f"Next: {', or '.join(commands)}")


def _width() -> int:
    return shutil.get_terminal_size((100, 40)).columns


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], drop: Sequence[str] = (), name: str = "") -> None:
    """Print a table. Where the terminal is too narrow, the columns in `drop` are left out, the first ones first."""
    shown = _shown.get() or Shown()
    if shown.columns:
        try:
            places = [_place(asked, columns) for asked in shown.columns]
        except ValueError as error:
            if isinstance(shown, Listed):
                raise
            _wrong.get().append(str(error))
            places = list(range(len(columns)))
        columns, rows = [columns[i] for i in places], [[row[i] for i in places] for row in rows]
    if isinstance(shown, Shown) and shown.json:
        cells = zip(*(_values(column) for column in zip(*rows, strict=True)), strict=True)
        values = [dict(zip(columns, row, strict=True)) for row in cells]
        _kept.get().append((name or f"table {len(_kept.get()) + 1}", values))
    elif shown.csv:
        print("\n" * bool(_kept.get()), end="")
        _kept.get().append((name, []))
        csv.writer(sys.stdout, lineterminator="\n").writerows([columns, *rows])
    elif shown.wide or not sys.stdout.isatty():
        _print(columns, rows, [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)])
    else:
        _print_fitted(columns, rows, () if shown.columns else drop, _width())


def _place(asked: str, columns: Sequence[str]) -> int:
    """The column that is meant by its title or the beginning of it."""
    slugs, wanted = [_slug(column) for column in columns], _slug(asked)
    found = [i for i, slug in enumerate(slugs) if slug == wanted] or [
        i for i, slug in enumerate(slugs) if slug.startswith(wanted)
    ]
    if len(found) != 1:
        several = f"may be {' or '.join(slugs[i] for i in found)}" if found else "is no column"
        raise ValueError(f"--columns: {asked} {several}; choose from {', '.join(slugs)}")
    return found[0]


def _slug(title: str) -> str:
    return re.sub("[^a-z0-9-]+", "-", title.lower()).strip("-")


def _values(cells: Sequence[str]) -> list[object]:
    """Of a column, all of one type: numbers where its cells are nothing else, and null where they are empty."""
    plain = [cell.replace(",", "") for cell in cells]
    given = [cell for cell in plain if cell]
    if all(re.fullmatch(r"[+-]?\d+", cell) for cell in given):
        return [int(cell) if cell else None for cell in plain]
    if all(re.fullmatch(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", cell) for cell in given):
        return [float(cell) if cell else None for cell in plain]
    return [cell or None for cell in cells]


def _print_fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], drop: Sequence[str], width: int) -> None:
    filled = [i for i in range(len(columns)) if not rows or any(row[i] for row in rows)]
    columns, rows = [columns[i] for i in filled], [[row[i] for i in filled] for row in rows]
    going = [column for column in drop if column in columns]
    for gone in range(len(going) + 1):
        kept = [i for i, column in enumerate(columns) if column not in going[:gone]]
        if _print_kept(
            [columns[i] for i in kept], [[row[i] for i in kept] for row in rows], width, last=gone == len(going)
        ):
            if gone:
                say(
                    f"Not shown: {', '.join(map(_slug, going[:gone]))}. --wide shows all columns, --columns A,B those"
                    " that you choose."
                )
            return


def _print_kept(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, last: bool) -> bool:
    """Whether these columns fit, in full or shortened. The last choice is printed in any case."""
    legend: list[str] = []
    for shorten in (None, _without_folders, _without_options):
        if shorten is not None:
            rows, more = shorten(columns, rows)
            legend += more
        if len(legend) <= LONGEST_LEGEND and (widths := _fitted(columns, rows, width)) is not None:
            break
    else:
        if not last:
            return False
        rows, widths = _cut(columns, rows, width)
    _print(columns, rows, widths)
    for line in legend:
        say(line)
    return True


def _fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Widths with which no word is broken; None where there are none."""
    most, least = [], []
    for column, *cells in zip(columns, *rows, strict=True):
        title = max(map(cell_len, column.split()))
        full = max([title, *map(cell_len, cells)])
        words = max([title, *(cell_len(word) for cell in cells for word in cell.split())])
        most.append(max(full, cell_len(column)))
        least.append(min(full, max(words, LEAST_TEXT)) if column in TEXTS else full)
    spare = width - sum(least) - GAP * (len(columns) - 1)
    if spare < 0:
        return None
    tight = sorted((i for i in range(len(columns)) if most[i] > least[i]), key=lambda i: most[i] - least[i])
    for place, i in enumerate(tight):
        more = min(most[i] - least[i], spare // (len(tight) - place))
        least[i], spare = least[i] + more, spare - more
    return least


def _without_folders(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
    """Names without the folder that all rows share, and what was left out."""
    folders = [_folder([row[i] for row in rows]) if column in NAMES else "" for i, column in enumerate(columns)]
    legend = [
        f"Every name in the column {' and in '.join(c for c, f in zip(columns, folders, strict=True) if f == folder)}"
        f" begins with {folder}"
        for folder in dict.fromkeys(folders)
        if folder
    ]
    return [[cell.removeprefix(folder) for cell, folder in zip(row, folders, strict=True)] for row in rows], legend


def _without_options(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
    """Layouts without the options of their mechanisms, and what the numbers behind them mean."""
    found, numbers = [list(row) for row in rows], dict[str, int]()
    for row in found:
        for i, column in enumerate(columns):
            if column in EXPRESSIONS and (bare := _bare(row[i])) != row[i]:
                row[i] = f"{bare} [{numbers.setdefault(row[i], len(numbers) + 1)}]"
    return found, [f"[{number}] {expression}" for expression, number in numbers.items()]


def _folder(cells: Sequence[str]) -> str:
    """ "hybrid/mnist/", where every name begins with it."""
    parts = [cell.split("/")[:-1] for cell in cells if cell]
    same = 0
    while len(parts) > 1 and all(len(part) > same and part[same] == parts[0][same] for part in parts):
        same += 1
    return "".join(f"{part}/" for part in parts[0][:same]) if parts else ""


def _bare(expression: str, most: int = 24) -> str:
    """performer*2 + softmax of performer(features=64)*2 + softmax."""
    before = None
    while before != expression:
        before, expression = expression, re.sub(r"\([^()]*\)", "", expression)
    return textwrap.shorten(expression, most, placeholder=" …")


def _cut(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> tuple[list[list[str]], list[int]]:
    """The ends of the longest names, where nothing else helps."""
    found, widths = (
        [list(row) for row in rows],
        [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)],
    )
    for i, column in enumerate(columns):
        over = sum(widths) + GAP * (len(columns) - 1) - width
        if over > 0 and (column in NAMES or column in EXPRESSIONS):
            widths[i] = max(LEAST_NAME, widths[i] - over, cell_len(column))
            for row in found:
                row[i] = row[i] if len(row[i]) <= widths[i] else f"…{row[i][1 - widths[i] :]}"
    return found, widths


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    bold, plain = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    left = [column in (*NAMES, *EXPRESSIONS, *TEXTS) for column in columns]
    wrapped = sum(any(cell_len(cell) > width for cell, width in zip(row, widths, strict=True)) for row in rows)
    for i, row in enumerate([columns, *rows]):
        lines = [
            textwrap.wrap(cell, width, break_long_words=False) or [""] for cell, width in zip(row, widths, strict=True)
        ]
        for number in range(max(map(len, lines))):
            parts = [cell[number] if number < len(cell) else "" for cell in lines]
            padded = [
                part + " " * (width - cell_len(part)) if starts else " " * (width - cell_len(part)) + part
                for part, width, starts in zip(parts, widths, left, strict=True)
            ]
            line = (" " * GAP).join(padded).rstrip()
            print(line if i else f"{bold}{line}{plain}")
        if i == 0:
            print((" " * GAP).join("─" * width for width in widths))
        elif 2 * wrapped > len(rows) > i:  # rows that wrap need air
            print()
    print()


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---" if column in (*NAMES, *EXPRESSIONS, *TEXTS) else "--:" for column in columns], *rows]
    return "".join("| " + " | ".join(map(in_markdown, line)) + " |\n" for line in lines)
