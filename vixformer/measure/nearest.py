"""What the atlas knows about an attention under conditions that it may not have: the nearest rows, and how near they
are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vixformer.attention.layout import parse
from vixformer.measure.atlas import Row, Start

AS_NEAR = 0.5
"""Doublings of the number of tokens: rows count if they are at most this much farther than the nearest row."""
NORMAL = 1.96
STARTS: dict[Start, str] = {"scratch": "trained from scratch", "converted": "converted from exact attention"}


@dataclass(frozen=True)
class Known:
    """Points of test top-1 above exact attention, with a 95 % interval."""

    points: float
    low: float
    high: float
    rows: tuple[Row, ...]
    alike: bool
    """Whether the rows have exactly this expression, with the same numbers of features, rank or landmarks."""

    @property
    def conditions(self) -> str:
        """In words, of the rows."""
        data = ", ".join(f"{row.data} ({row.tokens:,} tokens, {row.seeds} seeds)" for row in self.rows)
        other = "" if self.alike else f", with {self.rows[0].attention}"
        return f"{data}, {STARTS[self.rows[0].start]}{other}"

    def __str__(self) -> str:
        return f"{self.points:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


def known(attention: str, tokens: int, start: Start, rows: Iterable[Row]) -> Known | None:
    """The mean over the data sets with the nearest number of tokens; None where no row has the mechanism and layout.

    Of a data set, the row with most training counts. Numbers of features, rank or landmarks may differ: then the
    nearest ones count.
    """
    wanted = _family(attention)
    able = [row for row in rows if row.start == start and _family(row.attention)[0] == wanted[0]]
    if not able:
        return None
    apart = min(_apart(row, wanted[1]) for row in able)
    able = [row for row in able if _apart(row, wanted[1]) == apart]
    far = min(_far(row, tokens) for row in able)
    near = [row for row in able if _far(row, tokens) <= far + AS_NEAR]
    most: dict[str, Row] = {}
    for row in sorted(near, key=lambda row: (row.epochs * row.images, row.seeds)):
        most[row.data] = row
    found = tuple(sorted(most.values(), key=lambda row: (_far(row, tokens), row.data)))
    mean, half = _pooled(found)
    return Known(mean, mean - half, mean + half, found, apart == 0)


def _family(attention: str) -> tuple[str, tuple[float, ...]]:
    """The expression without its numbers, and they; how many layers a hybrid converts is no number of it."""
    text = re.sub(r", n=\d+", "", str(parse(attention)))
    return re.sub(r"\d+", "#", text), tuple(float(number) for number in re.findall(r"\d+", text))


def _apart(row: Row, numbers: Sequence[float]) -> float:
    theirs = _family(row.attention)[1]
    return sum(abs(math.log2(max(a, 0.5) / max(b, 0.5))) for a, b in zip(numbers, theirs, strict=True))


def _far(row: Row, tokens: int) -> float:
    """In doublings."""
    return abs(math.log2(row.tokens / tokens))


def _pooled(rows: Sequence[Row]) -> tuple[float, float]:
    """The mean and half its interval: of one row its own; of several by the random effects of DerSimonian and Laird, so
    that data sets that differ make the interval wider."""
    if len(rows) == 1:
        return rows[0].points, (rows[0].high - rows[0].low) / 2
    errors = [max((row.high - row.low) / 2 / NORMAL, 1e-3) for row in rows]
    weights = [error**-2 for error in errors]
    fixed = sum(w * row.points for w, row in zip(weights, rows, strict=True)) / sum(weights)
    spread = sum(w * (row.points - fixed) ** 2 for w, row in zip(weights, rows, strict=True))
    scale = sum(weights) - sum(w**2 for w in weights) / sum(weights)
    between = max(0.0, (spread - (len(rows) - 1)) / scale)
    weights = [1 / (error**2 + between) for error in errors]
    mean = sum(w * row.points for w, row in zip(weights, rows, strict=True)) / sum(weights)
    return mean, NORMAL / math.sqrt(sum(weights))
