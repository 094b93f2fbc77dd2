"""One HTML file with everything in it: the figures, the table, the answers, the pictures, and what draws them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

from vixformer.jsonfile import Values
from vixformer.measure.machine import in_words
from vixformer.report.conclusions import conclusions
from vixformer.report.figures import Figure
from vixformer.report.figures.costs import PLACE
from vixformer.report.figures.learning import MOST_MATRICES
from vixformer.report.figures.style import config, engine
from vixformer.report.pictures import Picture, uri
from vixformer.report.sentences import Answer, answers, sentences
from vixformer.report.table import TEXT, columns
from vixformer.results.evidence import MARGIN, explained
from vixformer.results.groups import Group, by_protocol, counted
from vixformer.results.runs import Run
from vixformer.version import __version__

SECTIONS = {
    "Now training": ("running",),
    "": ("pareto-inference", "pareto-training", "pareto-memory", "pareto-parameters", "pareto"),
    "Layouts and kernels": ("layouts", "best-layouts", "kernels", "features"),
    "Learning curves": ("curves", "learned"),
    "Speed and memory": ("times", "bench", "memory"),
    "Conversion": ("conversion",),
    "Classes": ("classes", "confusion", "confused"),
    "Where models look": ("attention", "heads"),
    "Data": ("channels", "examples", "steps", "augmentation", "patches"),
}
"""Folded on the page, but for those without a name."""
AXES = {"inference": "Inference time", "training": "Training time", "memory": "Memory", "parameters": "Parameters"}
"""Of the chart of accuracies against costs: the page shows one at a time."""
PARETO_SIZES = {250: 300, 420: 320, 620: 360, 840: 380, 1050: 400}
"""Inner widths and heights: the page takes the widest that has room."""


@dataclass(frozen=True)
class Report:
    """What a page shows."""

    groups: Sequence[Group]
    figures: Sequence[Figure] = ()
    pictures: Sequence[Picture] = ()
    unfinished: Sequence[Run] = ()
    damaged: Sequence[str] = ()
    """A sentence for each run that could not be read."""
    without: Sequence[str] = ()
    """Data sets that are not here."""
    command: str = "vix report RUNS"
    title: str = "vixformer report"
    extra: Values = field(default_factory=dict)
    margin: float = MARGIN
    """Points of top-1 that a difference must reach to matter."""
    live: bool = False
    """Whether `vix serve` shows it."""

    @cached_property
    def answers(self) -> dict[str, list[Answer]]:
        return answers(self.groups, self.margin)

    def to_dict(self) -> Values:
        found = columns(self.groups, self.answers) if self.groups else []
        rows = [
            {
                "exact": g.exact,
                "protocol": g.protocol,
                "cells": [{"show": c.cell(g), "value": c.value(g)} for c in found],
            }
            for g in self.groups
        ]
        return {
            "title": self.title,
            "lead": self._lead(),
            "conclusions": [c.to_dict(self.margin) for c in conclusions(self.groups, self.answers, self.margin)],
            "data": {group.protocol: group.data for group in self.groups},
            "tableCommand": f"{self.command} --tables csv",
            "figureCommand": f"{self.command} --figures figures",
            "columns": [{"name": c.name, "about": c.about, "text": c.name in TEXT, "main": c.main} for c in found],
            "rows": rows,
            "warnings": self._warnings(),
            "notes": self._notes() if self.groups else [],
            "explained": {
                protocol: explained(self.margin, [a.question.found for a in some])
                for protocol, some in self.answers.items()
            },
            "sentences": sentences(self.answers),
            "sections": [name for name in SECTIONS if name],
            "config": config("system-ui, sans-serif", 12),
            "figures": [self._figure(figure) for figure in self.figures],
            "pictures": [{**self._told(p), "uri": uri(p.image)} for p in self.pictures],
            "reports": self._reports(),
            "empty": "There is no finished run here.",
            "foot": self._foot(),
            **self.extra,
        }  # fmt: skip

    def _figure(self, figure: Figure) -> Values:
        title = figure.title.removesuffix(f", {figure.protocol}")
        told = self._told(figure) | {"title": title, **{k: getattr(figure, k) for k in ("protocol", "letters", "spec")}}
        if figure.place is not None:
            told["axis"] = AXES[figure.name.split("-")[1]]
            told["places"] = [
                {
                    "width": width,
                    "height": height,
                    "rows": [[row[key] for key in PLACE] for row in figure.place(width, height, 11)],
                }
                for width, height in PARETO_SIZES.items()
            ]
        return told

    def _told(self, item: Figure | Picture) -> Values:
        facts = {key: getattr(item, key) for key in ("name", "title", "says", "data")}
        return {**facts, "section": section_of(item.name)}

    def _foot(self) -> str:
        made = f"Made by vixformer {__version__} on {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
        return made + (f". To save this page: {self.command}" if self.live else f" with: {self.command}")

    def _lead(self) -> str:
        runs = sum(len(group.runs) for group in self.groups)
        data = ", ".join(dict.fromkeys(group.data for group in self.groups))
        waiting = f"; {len(self.unfinished)} not finished" if self.unfinished else ""
        return (
            f"{counted(len(self.groups), 'model')},"
            f" {counted(runs, 'finished run')}{f' on {data}' if data else ''}{waiting}."
        )

    def _notes(self) -> list[str]:
        machines = {
            in_words(m) for group in self.groups for run in group.runs if (m := (run.summary or {}).get("machine"))
        }
        return [
            (
                "Top-1 is of the test images, read once, at the epoch that the validation part of the training images"
                " chose; ± is one standard deviation over runs."
            ),
            (
                "Times and memory were measured when each run was made, beside whatever else was running. For models"
                " that vix compare timed in turn, x inference comes from that timing, as in compare.md. A ratio whose"
                " interval includes 1 is a tie."
            ),
            *(f"Trained on {machine}." for machine in sorted(machines)),
        ]

    def _warnings(self) -> list[str]:
        """What a reader should know before the numbers."""
        told = []
        if self.groups and all(len(group.runs) == 1 for group in self.groups):
            told.append("Each model has one run, so nothing is known about the spread, and every difference is open.")
        if self.without:
            told.append(
                f"There are no pictures of {', '.join(self.without)}: its images are not here. Set VIX_DATA to their"
                " folder."
            )
        told += [f"Left out: {what}." for what in self.damaged]
        return [
            *told,
            *(
                f"Not finished: {run.folder.name}, {len(run.history())} of {run.recipe.train.epochs} epochs."
                for run in self.unfinished
            ),
        ]

    def _reports(self) -> list[Values]:
        """Of the best models of each protocol."""
        able = sorted(
            (g for g in self.groups if g.first.get("per_class")), key=lambda g: -statistics.fmean(g.values("test_top1"))
        )
        return [
            {"name": g.name, "protocol": g.protocol,
             "classes": {k: v for k, v in g.first["per_class"].items() if isinstance(v, dict)}}
            for some in by_protocol(able).values() for g in some[:MOST_MATRICES]
        ]  # fmt: skip


def section_of(name: str) -> str:
    """The longest beginning counts: best-layouts is no layouts-something."""
    fits = [(len(start), section) for section, starts in SECTIONS.items() for start in starts if name.startswith(start)]
    return max(fits)[1]


def html(report: Values | None, extra_script: str = "", extra_html: str = "", charts: bool = True) -> str:
    """The page; without a report it waits for one from its server. `charts` brings the library that draws figures."""
    parts = {
        "/*STYLE*/": asset("style.css"),
        "<!--TRY-->": extra_html,
        "/*REPORT*/": "" if report is None else embedded(report),
        "/*BUNDLE*/": bundle().replace("</script", "<\\/script") if charts else "",
        "/*SCRIPT*/": asset("page.js") + extra_script,
    }
    page = asset("page.html")
    for mark, text in reversed(parts.items()):  # from the end, so that no mark is looked for in what was put in
        before, found, after = page.partition(mark)
        assert found, mark
        page = before + text + after
    return page


def embedded(data: object) -> str:
    """JSON inside a page."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c")


@cache
def bundle() -> str:
    """Vega, Vega-Lite and vega-embed."""
    return engine().javascript_bundle()


def asset(name: str, package: str = "vixformer.report") -> str:
    return (files(package) / "page" / name).read_text()


def write(report: Report, path: Path) -> None:
    from vixformer.writing import write_text

    write_text(path, html(report.to_dict()))
