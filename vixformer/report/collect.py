"""From run folders to what a page shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from vixformer.jsonfile import Values
from vixformer.registry import unknown
from vixformer.report.figures import all_figures
from vixformer.report.figures.figure import file_name
from vixformer.report.figures.learning import running
from vixformer.report.figures.measured import benched, histogram
from vixformer.report.pictures import all_pictures
from vixformer.report.whole import Report
from vixformer.results.evidence import MARGIN
from vixformer.results.groups import find_runs, some_groups
from vixformer.training.parts import load_parts

PICTURES = ("examples", "steps", "augmentation", "patches", "confused", "attention", "heads")
MOST_COUNTED = 2000
"""Images whose pixels a histogram counts."""
MAPS = 2
"""Images on which attention maps are drawn."""


def report_command(words: Sequence[str], margin: float = MARGIN, maps: int = MAPS) -> str:
    """What makes the same page again."""
    command = f"vix report {shlex.join(words)}"
    command += f" --maps {maps}" if maps != MAPS else ""
    return command + (f" --margin {margin:g}" if margin != MARGIN else "")


def collect(
    paths: Sequence[Path],
    benches: Values,
    maps: int = MAPS,
    command: str = "vix report RUNS",
    title: str = "vixformer report",
    tell: Callable[[str], None] = lambda _: None,
    only: str = "",
    live: bool = False,
    margin: float = MARGIN,
) -> Report:
    """Live: there may be nothing finished yet, and pictures, which take seconds, are left out."""
    folders = [path for path in paths if path.suffix != ".json"]
    found = find_runs(folders)
    groups = some_groups(found, folders) if folders and not live else found.groups
    tell("drawing")
    now = running(found.unfinished)
    figures = [*([now] if now else []), *all_figures(groups)]
    figures += [
        figure for name, bench in benches.items() if (figure := benched(bench, f"bench-{file_name(name)}")) is not None
    ]
    report = Report(groups, figures, (), found.unfinished, found.damaged, (), command, title, margin=margin, live=live)
    if live:
        return report
    tell("looking at data and models")
    without: list[str] = []
    for data in dict.fromkeys(group.data for group in groups):
        first = next(group for group in groups if group.data == data)
        try:
            images = load_parts(first.runs[0].recipe, torch.device("cpu")).train.spread(MOST_COUNTED).images
        except (ValueError, OSError):
            without.append(data)
            continue
        if not images.pixels.is_floating_point():
            figures.append(histogram(data, images.pixels[images.rows]))
    damaged = list(found.damaged)
    drawn = not only or only.startswith(PICTURES)
    pictures = all_pictures(groups, maps, damaged.append) if drawn else []
    if only:
        names = [item.name for item in (*figures, *pictures)]
        if only not in names:
            raise ValueError(unknown("figure of these runs", only, names))
        figures, pictures = [f for f in figures if f.name == only], [p for p in pictures if p.name == only]
    return replace(report, figures=figures, pictures=pictures, damaged=list(dict.fromkeys(damaged)), without=without)
