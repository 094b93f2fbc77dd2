"""A figure: a chart definition from groups of runs, or None where the runs do not have what it shows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import altair as alt
from altair.utils.schemapi import debug_mode

from vixformer.jsonfile import Values
from vixformer.results.groups import Group, by_protocol, comparable

WIDTH, HEIGHT = 460, 260
Drawn = TypeVar("Drawn", bound=alt.TopLevelMixin)
MOST_COLORS = 8
OTHERS = "others"


@dataclass(frozen=True)
class Figure:
    name: str
    """Of its file."""
    title: str
    chart: alt.TopLevelMixin
    says: str
    """What it shows, and how."""
    letters: int = 16
    """Of the longest name in its legend."""
    by_rows: bool = False
    """Its height is that of its rows, whatever its width."""
    place: Callable[[float, float, float], list[Values]] | None = None
    """The rows of its data with their labels placed, for an inner width, height and size of letters."""
    protocol: str = ""
    """Whose models it shows."""
    data: str = ""
    """The data set that it shows."""

    @cached_property
    def spec(self) -> Values:
        with debug_mode(False):  # which checks every part against the schema once more: tests do, and it takes seconds
            made = self.chart.to_dict(validate=False)
        return {key: value for key, value in made.items() if key not in ("config", "$schema")}


Maker = Callable[[Sequence[Group]], "Figure | None"]
Split = Callable[[Sequence[Group]], dict[str, list[Group]]]
FIGURES: list[tuple[Maker, Split]] = []


def figure(make: Maker, split: Split = by_protocol) -> Maker:
    FIGURES.append((make, split))
    return make


def figure_of_alike(make: Maker) -> Maker:
    """Of recipes that differ in attention alone: where the figure is about what attention does."""
    return figure(make, comparable)


def all_figures(groups: Sequence[Group]) -> list[Figure]:
    found: list[Figure] = []
    for make, split in FIGURES:
        sets = split(groups)
        made = {label: one for label, some in sets.items() if (one := make(some)) is not None}
        for label, one in made.items():
            first = sets[label][0]
            if len(made) > 1:
                name = file_name(first.short if label == first.protocol else label)
                one = replace(one, name=f"{one.name}-{name}", title=f"{one.title}, {label}")
            found.append(replace(one, protocol=first.protocol))
    return found


def file_name(label: str) -> str:
    """For files, and for a command line without quotes."""
    return re.sub(r"[^\w.]+", "-", label.replace("%", "")).strip("-")


def brief(groups: Sequence[Group]) -> dict[str, str]:
    """The names of models without the folders that all of them have in common, and without what tells them from models
    of other sets."""
    names = [group.name for group in groups]
    plain = [name.partition(" (")[0] for name in names]
    told = plain if len(set(plain)) == len(plain) else names
    folders = [name.rpartition("/")[0] for name in told]
    alike = len(folders) > 1 and len({os.path.isabs(folder) for folder in folders}) == 1
    shared = os.path.commonpath(folders) if alike else ""
    return {name: short.removeprefix(f"{shared}/" if shared else "") for name, short in zip(names, told, strict=True)}


def colored(groups: Sequence[Group]) -> dict[str, str]:
    """The name by which a chart colors each model: its own for the best and the best exact one, and one for all
    others."""
    names = brief(groups)
    if len(groups) <= MOST_COLORS:
        return names
    best = sorted(groups, key=lambda g: -max(g.values("test_top1"), default=0.0))
    exact = [g for g in best if g.exact][:1]
    own = {g.name for g in [*exact, *(g for g in best if g not in exact)][: MOST_COLORS - 1]}
    return {name: short if name in own else OTHERS for name, short in names.items()}


def colors(names: Mapping[str, str], **options: Any) -> alt.Color | dict[str, object]:
    """A color of the style for each name that has its own."""
    shown = [name for name in dict.fromkeys(names.values()) if name != OTHERS]
    own = alt.Color("shown:N", title=None, scale=alt.Scale(domain=shown), **options)
    return (
        alt.condition(f"datum.shown == '{OTHERS}'", alt.value("var(--faint)"), own) if OTHERS in names.values() else own
    )


def longest(names: Iterable[str]) -> int:
    return max(map(len, names), default=0)


def inline(rows: Iterable[Values]) -> alt.Data:
    return alt.Data(values=list(rows))


def sized(chart: Drawn, height: int = HEIGHT) -> Drawn:
    return chart.properties(width=WIDTH, height=height)
