"""A figure: a chart definition from groups of runs, or None where the runs do not have what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from vixformer.results.groups import Group

WIDTH, HEIGHT = 460, 260


@dataclass(frozen=True)
class Figure:
    name: str
    """Of its file."""
    title: str
    chart: Any
    says: str
    """What it shows, and how."""


Maker = Callable[[Sequence[Group]], "Figure | None"]
FIGURES: list[Maker] = []


def figure(make: Maker) -> Maker:
    FIGURES.append(make)
    return make


def all_figures(groups: Sequence[Group]) -> list[Figure]:
    """A figure a data set: accuracies on different images have nothing to do on one axis."""
    found: list[Figure] = []
    sets = list(dict.fromkeys(group.data for group in groups))
    for make in FIGURES:
        for data in sets:
            with debug_mode(False):  # which checks every part against the schema once more: tests do, and it takes seconds
                one = make([group for group in groups if group.data == data])
            if one is not None:
                found.append(one if len(sets) == 1 else replace(one, name=f"{one.name}-{data}", title=f"{one.title}, {data}"))
    return found


def inline(rows: Iterable[dict[str, Any]]) -> Any:
    return alt.Data(values=list(rows))


def sized(chart: Any, height: int = HEIGHT) -> Any:
    return chart.properties(width=WIDTH, height=height)
