"""The figures of the documents, drawn from kept runs and timings by the definitions of `vix report`, into
docs/results/figures."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import torch

from tools.pages.blocks import Block, blocks
from tools.pages.tables import MEMORY, RUNS, TIMES
from tools.runs import RESULTS, Kept
from tools.timings import NAIVE
from vixformer import load_recipe
from vixformer.config import recipe_from_dict
from vixformer.documents.claims import Document, Exhibit
from vixformer.documents.reproduce import epoch_images
from vixformer.jsonfile import Values
from vixformer.report.figures.figure import FIGURES, Figure, file_name, inline, longest, sized
from vixformer.report.figures.measured import histogram
from vixformer.report.figures.style import complete, svg
from vixformer.report.pictures import attention, pictures_of_data
from vixformer.results.groups import Group, counted, find_runs
from vixformer.results.runs import Run
from vixformer.training.parts import load_parts
from vixformer.writing import write_bytes

FOLDER = RESULTS / "figures"
PICTURES = ("channels", "examples", "steps", "augmentation", "patches")
"""From the images of a data set; the others are from runs."""
DRAWS = {("cifar-kernels", 5): ("examples",), ("cifar-kernels", 6): ("steps",), ("cifar-kernels", 7): ("steps",)}
"""Figures of which more is known here than that they are of the data."""
COUNTED = 2000
"""Images whose pixels a histogram counts."""


@dataclass(frozen=True)
class Drawing:
    """What exhibits with the same rows and the same drawings show."""

    exhibits: tuple[Exhibit, ...]
    charts: dict[str, Figure]
    """By the name of the file."""
    pictures: dict[str, tuple[str, str]]
    """By the name of the file: what is drawn, and the recipe whose data it is drawn from."""
    waits: tuple[str, ...]
    """What is not drawn yet, and which runs it waits for."""
    partial: tuple[str, ...] = ()
    """How many rows a chart has where others were not run."""

    @property
    def title(self) -> str:
        what = self.exhibits[0].what.capitalize()
        *first, last = [str(exhibit.number) for exhibit in self.exhibits]
        numbers = f"s {', '.join(first)} and {last}" if first else f" {last}"
        return f"{what}{numbers}: {'; '.join(e.about for e in self.exhibits)}"


@cache
def drawings(document: Document) -> list[Drawing]:
    alike: dict[tuple[Any, ...], list[Exhibit]] = {}
    for exhibit in document.exhibits:
        exhibit = replace(exhibit, draws=DRAWS.get((document.name, exhibit.number), exhibit.draws))
        if exhibit.draws or exhibit.what == "figure":
            alike.setdefault((exhibit.what, exhibit.draws, exhibit.rows), []).append(exhibit)
    return [_drawing(document, tuple(some)) for some in alike.values()]


def _drawing(document: Document, exhibits: tuple[Exhibit, ...]) -> Drawing:
    exhibit, charts, pictures = exhibits[0], dict[str, Figure](), dict[str, tuple[str, str]]()
    waits, partial = list[str](), list[str]()
    start = f"{document.name}-{exhibit.name.replace(' ', '-')}"
    sets = by_data(exhibit.recipes())
    for draw in exhibit.draws:
        for data, names in sets.items():
            if draw in PICTURES:
                pictures[f"{start}-{draw}-{data}.{'svg' if draw == 'channels' else 'png'}"] = (draw, names[0])
                continue
            found = list(charts_of(draw, names))
            end = "" if len(sets) == 1 else f"-{data}"
            for label, figure in found:
                title = figure.title if len(sets) == 1 else f"{figure.title}, {data}"
                charts[f"{start}-{figure.name}{end}{label}.svg"] = replace(figure, title=title)
            missing = _missing(draw, names)
            if not found:
                waits.append(
                    f"*{draw}* of {data} waits for {'timings' if draw == 'times' else 'runs'} of"
                    f" {_some(missing or names)}"
                )
            elif missing:
                partial.append(f"{len(names) - len(missing)} of {len(names)} rows of {data}")
    if not exhibit.draws:
        waits.append("nothing here draws it yet")
    if "curves" in exhibit.draws and not _tracked(exhibit.recipes()):
        waits.append(
            "test curves wait for runs that read the test set after every epoch (`train.track_test`):"
            f" {_some(exhibit.recipes())}"
        )
    return Drawing(exhibits, charts, pictures, tuple(waits), tuple(dict.fromkeys(partial)))


def by_data(names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(load_recipe(name).data.name, []).append(name)
    return found


def charts_of(draw: str, names: Sequence[str]) -> Iterator[tuple[str, Figure]]:
    """With the end of the file's name, where a drawing makes several of one kind."""
    groups = timed_groups(names) if draw == "times" else run_groups(names)
    for make, split in FIGURES:
        if groups and make.__name__.replace("_", "-").startswith(draw):
            made = {label: one for label, some in split(groups).items() if (one := make(some)) is not None}
            yield from ((f"-{file_name(label)}" if len(made) > 1 else "", figure) for label, figure in made.items())


def run_groups(names: Sequence[str]) -> list[Group]:
    """Of the runs that the table of these rows shows."""
    shown = shown_block(names)
    return [] if shown is None else [group_of(name, runs) for name, runs in shown.runs.items()]


def group_of(name: str, runs: Sequence[Kept]) -> Group:
    return Group(
        name, tuple(Run(Path(name), recipe_from_dict(r.recipe, name), r.summary, name, r.history) for r in runs)
    )


def timed_groups(names: Sequence[str]) -> list[Group]:
    """Of all rows that were timed, whether they were trained or not."""
    found = []
    for name in (name for name in names if name in TIMES):
        recipe, timing = load_recipe(name), TIMES[name]
        summary = {
            "seconds_an_epoch": epoch_images(recipe) / timing["batch"] * timing["step_ms"]["median"] / 1e3,
            "inference_ms_mean": timing["inference_ms"]["mean"],
            "inference_ms_sd": timing["inference_ms"]["sd"],
        }
        found.append(Group(name, (Run(Path(name), recipe, summary, name, []),)))
    return found


def _missing(draw: str, names: Sequence[str]) -> list[str]:
    """Rows that it would need to be whole."""
    shown = shown_block(names)
    return [name for name in names if name not in (TIMES if draw == "times" else {} if shown is None else shown.runs)]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(f"`{name}`" for name in names[:4]) + more


def _tracked(names: Sequence[str]) -> bool:
    return any("test_loss" in record for name in names for run in RUNS.get(name, []) for record in run.history)


def shown_block(names: Sequence[str]) -> Block | None:
    return next(iter(blocks(names)), None)


# --- memory


def memory_figure(names: Sequence[str]) -> Figure | None:
    """Three bars: exact attention with all weights, exact attention as it runs here, and the others."""
    rows = []
    for name in names:
        here = "exact, as it runs here" if name + NAIVE in MEMORY else "other"
        for measured, kind in ((name + NAIVE, "exact, all weights in memory"), (name, here)):
            if measured in MEMORY:
                rows.append({"model": name, "kind": kind, "memory": statistics.median(MEMORY[measured]["train_mb"])})
    return memory_bars(rows)


# --- where models look


def attention_files(document: Document) -> dict[str, list[str]]:
    """By the name of the file, the rows that it may show."""
    return {
        f"{document.name}-attention-{data}.png": names
        for data, names in by_data(list(document.printed)).items()
        if data != "synthetic"
    }


def _looks(names: Sequence[str], groups: Sequence[Group]) -> bytes | None:
    """Of the best of these rows whose weights are in a run folder: the best with exact attention, and others beside
    it."""
    known = {name.replace("/", "-"): name for name in names}
    found = [replace(group, name=_trained(known[group.name], group)) for group in groups if group.name in known]
    if not found or _of_data(names[0]) is None:
        return None
    best = sorted(found, key=lambda group: -max(group.values("test_top1")))
    parts = load_parts(best[0].runs[0].recipe, torch.device("cpu"))
    pictures = attention(load_recipe(names[0]).data.name, parts, best, print, 1)
    return pictures[0].png() if pictures else None


def _trained(name: str, group: Group) -> str:
    return f"{name}, {counted(group.first['epochs'], 'epoch')}, {group.first['test_top1']:.1f} %"


# --- files


def learned_figure(document: Document) -> Figure | None:
    """Numbers that a mechanism learned, by epoch."""
    names = [
        n
        for n in document.printed
        if any("." in key for run in RUNS.get(n, []) for record in run.history for key in record)
    ]
    found = list(charts_of("learned", names))
    return found[0][1] if found else None


def files(document: Document) -> dict[str, Figure]:
    """Every chart of a document, by the name of its file."""
    found = {name: figure for drawing in drawings(document) for name, figure in drawing.charts.items()}
    for data, names in by_data([name for name in document.printed if name in MEMORY]).items():
        if (bars := memory_figure(names)) is not None:
            found[f"{document.name}-memory-{data}.svg"] = bars
    if (learned := learned_figure(document)) is not None:
        found[f"{document.name}-learned.svg"] = learned
    return found


def written(documents: Sequence[Document], folders: Sequence[Path] = ()) -> None:
    """Draws what is not there as it should be. Pictures of data that is not here stay as they are, and so do maps of
    attention unless these folders have runs with weights."""
    groups = find_runs(folders).groups
    FOLDER.mkdir(exist_ok=True)
    keep = set[str]()
    for document in documents:
        charts = files(document)
        for name, figure in charts.items():
            if not is_drawn(name, figure):
                write_bytes(FOLDER / name, _svg(figure))
        pictures = {name: made for drawing in drawings(document) for name, made in drawing.pictures.items()}
        for name, (draw, recipe) in pictures.items():
            if (drawn := _picture(draw, recipe)) is not None:
                write_bytes(FOLDER / name, drawn)
        looks = attention_files(document)
        for name, rows in looks.items():
            if groups and (drawn := _looks(rows, groups)) is not None:
                write_bytes(FOLDER / name, drawn)
        keep |= charts.keys() | pictures.keys() | looks.keys()
    for path in FOLDER.iterdir():
        if path.name not in keep:
            path.unlink()


def is_drawn(name: str, figure: Figure) -> bool:
    path = FOLDER / name
    return path.exists() and path.read_text().endswith(_mark(figure))


def _mark(figure: Figure) -> str:
    """At the end of a file: what it was drawn from, so that it is drawn again only if that has changed."""
    spec = complete(figure)
    return f"<!-- {hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]} -->\n"


def _svg(figure: Figure) -> bytes:
    return (svg(complete(figure)) + _mark(figure)).encode()


@cache
def _of_data(recipe_name: str) -> dict[str, Callable[[], bytes]] | None:
    recipe = load_recipe(recipe_name)
    try:
        parts = load_parts(recipe, torch.device("cpu"))
    except (ValueError, OSError):
        return None
    few = parts.train.spread(COUNTED).images
    data = recipe.data.name
    found: dict[str, Callable[[], bytes]] = {"channels": lambda: _svg(histogram(data, few.pixels[few.rows]))}
    return found | {p.name.partition("-")[0]: p.png for p in pictures_of_data(data, parts, recipe.model)}


def _picture(draw: str, recipe: str) -> bytes | None:
    found = _of_data(recipe)
    return None if found is None or draw not in found else found[draw]()


def memory_bars(rows: Sequence[Values]) -> Figure | None:
    """Rows of `model`, `kind` and `memory` in MiB, in their order."""
    if not rows:
        return None
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    chart = alt.Chart(inline(rows)).mark_bar().encode(
        x=alt.X("memory:Q", title="peak memory of a training step, MiB"),
        y=alt.Y("model:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)),
        yOffset=alt.YOffset("kind:N", sort=kinds),
        color=alt.Color("kind:N", title=None, sort=kinds),
        tooltip=["model:N", "kind:N", alt.Tooltip("memory:Q", format=".0f")],
    )  # fmt: skip
    says = "Exact attention with all its weights in memory, exact attention as it runs here, and the others."
    return Figure(
        "memory",
        "Memory of exact attention and others",
        sized(chart, 22 * len(rows)),
        says,
        longest(kinds),
        by_rows=True,
    )
