"""One HTML file with everything in it: the figures, the table, the answers, the pictures, and what draws them."""

from __future__ import annotations

import importlib
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from vixformer.measure.machine import in_words
from vixformer.report.figures import Figure
from vixformer.report.pictures import Picture
from vixformer.report.sentences import Answer, answers, sentences
from vixformer.report.table import TEXT, columns
from vixformer.results.evidence import MARGIN, explained
from vixformer.results.groups import Group, counted
from vixformer.results.runs import Run
from vixformer.version import __version__

SECTIONS = {
    "Now training": ("running",),
    "Overview": ("pareto", "bubbles"),
    "Layouts": ("layouts", "best-layouts", "kernels", "features", "times"),
    "Learning": ("curves", "learned"),
    "Speed": ("bench", "memory"),
    "Conversion": ("conversion",),
    "Classes": ("classes", "confusion", "confused"),
    "Where models look": ("attention", "heads"),
    "Data": ("channels", "examples", "steps", "augmentation", "patches"),
}
WIDE = ("curves", "learned", "running", "features", "times")
MOST_REPORTS = 12


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
    extra: dict[str, Any] = field(default_factory=dict)
    margin: float = MARGIN
    """Points of top-1 that a difference must reach to matter."""

    @cached_property
    def answers(self) -> dict[str, list[Answer]]:
        return answers(self.groups, self.margin)

    def to_dict(self) -> dict[str, Any]:
        found = columns(self.groups, self.answers) if self.groups else []
        rows = [{"exact": group.exact, "cells": [{"show": c.cell(group), "value": c.value(group)} for c in found]} for group in self.groups]
        return {
            "title": self.title,
            "lead": self._lead(),
            "caption": "Shaded rows have exact attention in every layer. Click a heading to sort.",
            "tableCommand": f"{self.command} --tables csv",
            "columns": [{"name": c.name, "about": c.about, "text": c.name in TEXT} for c in found],
            "rows": rows,
            "notes": self._notes() if self.groups else [],
            "sentences": sentences(self.answers),
            "sections": [name for name in SECTIONS if name != "Overview"],
            "figures": [
                {**self._told(f), "spec": {key: value for key, value in f.chart.to_dict(validate=False).items() if key != "config"}}
                for f in self.figures
            ],
            "pictures": [{**self._told(p), "uri": p.uri()} for p in self.pictures],
            "reports": self._reports(),
            "empty": "There is no finished run here.",
            "foot": f"Made by vixformer {__version__} on {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC with: {self.command}",
            **self.extra,
        }

    def _told(self, item: Figure | Picture) -> dict[str, Any]:
        return {
            "name": item.name,
            "title": item.title,
            "says": item.says,
            "section": section_of(item.name),
            "wide": item.name.startswith(WIDE),
            "command": f"{self.command} --only {item.name} --figures .",
        }

    def _lead(self) -> str:
        runs = sum(len(group.runs) for group in self.groups)
        data = ", ".join(dict.fromkeys(group.data for group in self.groups))
        waiting = f"; {len(self.unfinished)} not finished" if self.unfinished else ""
        return f"{counted(len(self.groups), 'model')}, {counted(runs, 'finished run')}{f' on {data}' if data else ''}{waiting}."

    def _notes(self) -> list[str]:
        counts = sorted({len(group.runs) for group in self.groups})
        machines = {
            in_words(m)
            for group in self.groups for run in group.runs if (m := (run.summary or {}).get("machine"))
        }  # fmt: skip
        notes = [
            "Top-1 is of the test images, read once, at the epoch that the validation part of the training images chose; ± is one standard "
            "deviation over runs.",
            f"Runs a model: {counts[0]}" + (f" to {counts[-1]}." if counts[1:] else "."),
            *(f"Trained on {machine}." for machine in sorted(machines)),
            "Times and memory were measured when each run was made, beside whatever else was running. For models that vix compare timed in "
            "turn, x inference comes from that timing, as in compare.md. A ratio whose interval includes 1 is a tie.",
        ]
        for protocol, some in self.answers.items():
            notes.append(f"{protocol}: {explained(self.margin, [answer.question.found for answer in some])}")
        if counts[0] == 1:
            notes.append("Nothing is known about the spread of a model with one run: its differences to other models are open.")
        protocols = {group.protocol for group in self.groups}
        if len(protocols) > len({group.data for group in self.groups}):
            notes.append("Not all models were trained alike: " + "; ".join(sorted(protocols)) + ".")
        if self.without:
            notes.append(f"No pictures of {', '.join(self.without)}: the images are not here. VIX_DATA says where they are.")
        notes += [f"Left out: {what}." for what in self.damaged]
        notes += [f"Not finished: {run.folder.name}, {len(run.history())} of {run.recipe.train.epochs} epochs." for run in self.unfinished]
        return notes

    def _reports(self) -> dict[str, Any]:
        able = [g for g in self.groups if g.first.get("per_class")]
        ordered = sorted(able, key=lambda g: -statistics.fmean(g.values("test_top1")))
        sets = dict.fromkeys(g.data for g in ordered)
        best = [g for data in sets for g in [g for g in ordered if g.data == data][:MOST_REPORTS]]
        return {g.name: {k: v for k, v in g.first["per_class"].items() if isinstance(v, dict)} for g in best}


def section_of(name: str) -> str:
    """The longest beginning counts: best-layouts is no layouts-something."""
    fits = [(len(start), section) for section, starts in SECTIONS.items() for start in starts if name.startswith(start)]
    return max(fits)[1]


def html(report: dict[str, Any] | None, extra_script: str = "", extra_html: str = "") -> str:
    """The page; without a report it waits for one from its server."""
    data = "" if report is None else json.dumps(report, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c")
    parts = {
        "/*STYLE*/": asset("style.css"),
        "<!--TRY-->": extra_html,
        "/*REPORT*/": data,
        "/*BUNDLE*/": bundle().replace("</script", "<\\/script"),
        "/*SCRIPT*/": asset("page.js") + extra_script,
    }
    page = asset("page.html")
    for mark, text in reversed(parts.items()):  # from the end, so that no mark is looked for in what was put in
        before, found, after = page.partition(mark)
        assert found, mark
        page = before + text + after
    return page


@cache
def bundle() -> str:
    """Vega, Vega-Lite and vega-embed."""
    try:
        vl_convert = importlib.import_module("vl_convert")
    except ImportError:
        raise ValueError('reports need vl-convert: pip install "vixformer[report]"') from None
    return vl_convert.javascript_bundle()


def asset(name: str, package: str = "vixformer.report") -> str:
    return (files(package) / "page" / name).read_text()


def write(report: Report, path: Path) -> None:
    from vixformer.writing import write_text

    write_text(path, html(report.to_dict()))
