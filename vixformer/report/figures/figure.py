"""A figure: a chart definition from groups of runs, or None where the runs do not have what it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from vixformer.results.groups import Group, comparable

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
Split = Callable[[Sequence[Group]], dict[str, list[Group]]]
FIGURES: list[tuple[Maker, Split]] = []


def a_protocol(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """Accuracies on different images, or after longer training, have nothing to do on one axis."""
    return {one: [group for group in groups if group.protocol == one] for one in dict.fromkeys(group.protocol for group in groups)}


def a_data_set(groups: Sequence[Group]) -> dict[str, list[Group]]:
    return {data: [group for group in groups if group.data == data] for data in dict.fromkeys(group.data for group in groups)}


def figure(make: Maker, split: Split = a_protocol) -> Maker:
    FIGURES.append((make, split))
    return make


def figure_of_alike(make: Maker) -> Maker:
    """Of recipes that differ in attention alone: where the figure is about what attention does."""
    return figure(make, comparable)


def figure_of_data(make: Maker) -> Maker:
    """Where models stand by themselves, however they were trained."""
    return figure(make, a_data_set)


def all_figures(groups: Sequence[Group]) -> list[Figure]:
    found: list[Figure] = []
    for make, split in FIGURES:
        with debug_mode(False):  # which checks every part against the schema once more: tests do, and it takes seconds
            made = {label: one for label, some in split(groups).items() if (one := make(some)) is not None}
        several = len(made) > 1
        found += [
            replace(one, name=f"{one.name}-{file_name(label)}", title=f"{one.title}, {label}") if several else one
            for label, one in made.items()
        ]
    return found


def file_name(label: str) -> str:
    """For files, and for a command line without quotes."""
    return re.sub(r"[^\w.]+", "-", label.replace("%", "")).strip("-")


def inline(rows: Iterable[dict[str, Any]]) -> Any:
    return alt.Data(values=list(rows))


def complete(figure: Figure) -> Any:
    """As it stands in a file of its own."""
    return figure.chart.properties(title=figure.title).configure_legend(orient="bottom", columns=3)


def sized(chart: Any, height: int = HEIGHT) -> Any:
    return chart.properties(width=WIDTH, height=height)
