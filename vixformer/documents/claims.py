"""A document: what it prints, what it claims, and what it names."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Literal

from pydantic import TypeAdapter

from vixformer.recipes import RECIPES
from vixformer.registry import unknown
from vixformer.results.evidence import Says, margin

Measure = Literal["top-1", "first epochs", "train top-1", "step", "inference", "memory", "parameters"]
"""What a claim is about: percentage points for accuracy, ratios for costs."""
Kind = Literal["system", "data", "setting", "measure", "exhibit", "experiment", "outlook"]
"""Of what a document names, in the order of the page of coverage."""


@dataclass(frozen=True)
class Column:
    """A column of a printed table, and what of a run stands beside it."""

    printed: str
    """In the document's CSV file."""
    title: str
    ours: str | None
    """A field of a run's summary, or of what `python -m tools.runs time` writes; None where nothing compares."""
    digits: int = 2
    here: str = ""
    """The title of ours, where it is in another unit."""


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure."""

    what: Literal["table", "figure"]
    number: int
    about: str
    rows: tuple[str, ...]
    """Recipes, or patterns of them, in the document's order."""
    columns: tuple[Column, ...] = ()
    base: str | None = None
    """The row that the others are compared with."""
    draws: tuple[str, ...] = ()
    """What `vix report --only` draws for it."""

    @property
    def name(self) -> str:
        return f"{self.what} {self.number}"

    def recipes(self) -> list[str]:
        return matching(self.rows)


@dataclass(frozen=True)
class Claim:
    """`one` against `other`: sets of recipes, each averaged over its recipes before seeds are compared. Accuracy is a
    difference in points, a cost a ratio, which is `below` where `one` is cheaper."""

    text: str
    where: str
    """A section, table or figure of the document."""
    one: tuple[str, ...]
    other: tuple[str, ...]
    says: Says = "above"
    measure: Measure = "top-1"
    printed: float | None = None
    """The document's own effect, where its tables do not hold it."""
    column: str | None = None
    """Of its tables, where it is not the document's usual one."""
    epochs: Literal["own", "all"] = "own"
    """Which epochs must be equal on both sides: those of the run, or also those of the run whose weights it started
    from."""
    note: str = ""
    """Where the document contradicts itself, or what the reader has to know."""

    def sides(self) -> tuple[list[str], list[str]]:
        return matching(self.one), matching(self.other)


@dataclass(frozen=True)
class Named:
    """A system, option, table, figure, experiment or outlook that a document names, and where it is here."""

    what: str
    where: str
    here: tuple[str, ...]
    """`recipe NAME`, `option SECTION.FIELD`, `word EXPRESSION`, `model NAME`, `data NAME`, `command vix ...`, `figure
    NAME`, `page FILE`, `tool NAME`: each is checked to exist. Empty: it is not here, and `differs` says why."""
    differs: str = ""
    kind: Kind = "system"
    shows: tuple[str, ...] = ()
    """Numbered tables and figures of the document that are no exhibits, such as "figure 1"."""


@dataclass(frozen=True)
class Document:
    name: str
    """Of its recipes' folder."""
    title: str
    year: int
    top1: str
    """The column of its tables that claims about accuracy rest on."""
    exhibits: tuple[Exhibit, ...]
    claims: tuple[Claim, ...]
    names: tuple[Named, ...]
    tables: int = 0
    """The number of its last numbered table."""
    figures: int = 0
    note: str = ""
    """What the reader of its claims has to know."""

    @cached_property
    def printed(self) -> dict[str, dict[str, str]]:
        """Its own figures, by recipe, in its order."""
        return {row["recipe"]: row for row in _table(self.name)}

    def exhibit(self, what: str, number: int) -> Exhibit:
        for found in self.exhibits:
            if (found.what, found.number) == (what, number):
                return found
        raise ValueError(
            unknown(f"exhibit of {self.name}", f"{what} {number}", [found.name for found in self.exhibits])
        )

    def effect(self, claim: Claim) -> float | None:
        """What its own tables say of a claim: a difference in points, or for costs a ratio; None where they do not hold
        it."""
        if claim.printed is not None:
            return claim.printed
        column = claim.column or (self.top1 if claim.measure == "top-1" else None)
        if column is None:
            return None
        sides = [self._values(recipes, column) for recipes in claim.sides()]
        if not all(sides):
            return None
        one, other = (statistics.fmean(values) for values in sides)
        return one / other if is_cost(claim.measure) else one - other

    def _values(self, recipes: Iterable[str], column: str) -> list[float]:
        return [float(value) for name in recipes if (value := self.printed.get(name, {}).get(column))]

    def agrees(self, claim: Claim) -> bool | None:
        """Whether its own tables say what it claims; None where they do not hold it."""
        found = self.effect(claim)
        if found is None:
            return None
        size = found - 1 if is_cost(claim.measure) else found
        limit = COST_MARGIN if is_cost(claim.measure) else 0.5
        says = {
            "above": size > 0,
            "below": size < 0,
            "not above": size < limit,
            "not below": size > -limit,
            "equal": abs(size) < limit,
        }
        return says[claim.says]

    def margin(self, claim: Claim) -> float:
        """What a difference must stay within to be ruled out, stated before our runs."""
        found = self.effect(claim)
        if is_cost(claim.measure):
            return COST_MARGIN if found is None else max(COST_MARGIN, abs(found - 1) / 2)
        return margin(found or 0.0)


COST_MARGIN = 0.05
"""Of ratios of times and memory."""


def read_document(
    name: str,
    title: str,
    year: int,
    *,
    top1: str,
    columns: tuple[Column, ...],
    tables: int = 0,
    figures: int = 0,
    note: str = "",
) -> Document:
    """From its tables in this folder; `columns` are those of its printed tables, and an exhibit can have some of
    them."""
    return Document(
        name,
        title,
        year,
        top1,
        tuple(_exhibit(row, columns) for row in _table(f"{name}.exhibits")),
        tuple(_CLAIM.validate_python(_split(row, "one", "other")) for row in _table(f"{name}.claims")),
        tuple(_NAMED.validate_python(_split(row, "here", "shows", by="; ")) for row in _table(f"{name}.names")),
        tables,
        figures,
        note,
    )


_CLAIM, _NAMED = TypeAdapter(Claim), TypeAdapter(Named)


def _table(name: str) -> list[dict[str, str]]:
    text = (files("vixformer.documents") / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _split(row: Mapping[str, str], *several: str, by: str = " ") -> dict[str, str | list[str]]:
    """The cells that say something; those with several values as lists."""
    lists = {key: _written_out(filter(None, row[key].split(by))) for key in several}
    return {key: cell for key, cell in row.items() if cell} | lists


def _exhibit(row: Mapping[str, str], columns: tuple[Column, ...]) -> Exhibit:
    what, _, number = row["exhibit"].partition(" ")
    shown = row["columns"].split() or [c.printed for c in columns if what == "table"]
    return Exhibit(
        "table" if what == "table" else "figure",
        int(number),
        row["about"],
        tuple(_written_out(row["rows"].split())),
        tuple(c for c in columns if c.printed in shown),
        row["base"] or None,
        tuple(row["draws"].split()),
    )


def _written_out(patterns: Iterable[str]) -> list[str]:
    """exp1/vit and exp2/vit for exp{1,2}/vit."""
    found: list[str] = []
    for pattern in patterns:
        before, brace, rest = pattern.partition("{")
        choices, _, after = rest.partition("}")
        found += _written_out(before + choice + after for choice in choices.split(",")) if brace else [pattern]
    return found


def is_cost(measure: Measure) -> bool:
    return measure in ("step", "inference", "memory", "parameters")


def matching(patterns: Iterable[str]) -> list[str]:
    """Recipes, in the order of the patterns and then of the registry."""
    return list(_matching(tuple(patterns), tuple(RECIPES)))


@lru_cache(1000)
def _matching(patterns: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """Pages ask thousands of times."""
    return tuple(dict.fromkeys(name for pattern in patterns for name in sorted(known) if fnmatch(name, pattern)))


def find(documents: Mapping[str, Document], name: str) -> Document:
    """By its folder, or by a part of its title."""
    if name in documents:
        return documents[name]
    titled = [found for found in documents.values() if name.lower() in found.title.lower()]
    if len(titled) != 1:
        raise ValueError(unknown("document", name, documents))
    return titled[0]
