"""What was learned: curves, classes, confusion, and how far converted layers are off."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import altair as alt

from vixformer.report.figures.figure import Figure, figure, figure_of_data, inline, sized
from vixformer.results.groups import Group
from vixformer.results.runs import Run
from vixformer.results.schema import AVERAGES, MOST

MOST_CLASSES, MOST_MATRICES = 20, 8
CLICK = " Click a name to see it alone."
"""Where a chart is live."""


def running(runs: Sequence[Run]) -> Figure | None:
    """The curves of runs that are not finished, each by itself."""
    found = curves([Group(run.folder.name, (run,)) for run in runs])
    return None if found is None else replace(found, name="running", title="Runs that are not finished", says="As far as they have come.")


@figure
def curves(groups: Sequence[Group]) -> Figure | None:
    keys = {
        "train_loss": "training loss",
        "val_loss": "validation loss",
        "test_loss": "test loss",
        "train_top1": "training top-1, %",
        "val_top1": "validation top-1, %",
        "test_top1": "test top-1, %",
    }
    return _by_epoch(groups, keys, "curves", "Learning curves")


@figure
def learned(groups: Sequence[Group]) -> Figure | None:
    """The mixture's weight and temperature, for one."""
    records = (record for group in groups for history in group.histories() for record in history)
    keys = {key: key.rpartition(".")[2] for record in records for key in record if "." in key}
    return _by_epoch(groups, keys, "learned", "Learned numbers of mechanisms")


def _by_epoch(groups: Sequence[Group], keys: dict[str, str], name: str, title: str) -> Figure | None:
    rows = []
    for group in groups:
        histories = group.histories()
        for epoch in range(max((len(h) for h in histories), default=0)):
            for key, what in keys.items():
                values = [h[epoch][key] for h in histories if epoch < len(h) and key in h[epoch]]
                if values:
                    rows.append(
                        {
                            "model": group.name,
                            "number": f"{group.name} {key}",
                            "epoch": epoch + 1,
                            "of": what,
                            "value": statistics.fmean(values),
                            "low": min(values),
                            "high": max(values),
                        }
                    )
    if not rows:
        return None
    panels = [what for what in dict.fromkeys(keys.values()) if any(row["of"] == what for row in rows)]
    pick = alt.selection_point(fields=["model"], bind="legend")
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("epoch:Q", axis=alt.Axis(format="d", values=_ticks(max(row["epoch"] for row in rows)))),
        color=alt.Color("model:N", title=None, legend=alt.Legend(labelLimit=320, symbolLimit=500, symbolOpacity=1)),
        opacity=alt.condition(pick, alt.value(1.0), alt.value(0.08)), detail="number:N",
    )  # fmt: skip
    line = base.mark_line(point=True).encode(
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)), tooltip=["model:N", "epoch:Q", alt.Tooltip("value:Q", format=".3f")]
    )
    band = base.mark_area().encode(y="low:Q", y2="high:Q", opacity=alt.condition(pick, alt.value(0.15), alt.value(0.0)))
    chart = (
        sized(band + line, 200)
        .add_params(pick)
        .facet(facet=alt.Facet("of:N", title=None, sort=panels), columns=3 if len(panels) > 4 else 2)
        .resolve_scale(y="independent")
    )
    says = f"Mean over seeds, and from the lowest to the highest of them.{CLICK}"
    return Figure(name, title, chart, says)


def _ticks(last: int) -> list[int]:
    return list(range(1, last + 1, max(1, round(last / 8))))


@figure
def classes(groups: Sequence[Group]) -> Figure | None:
    rows = [
        {"model": g.name, "class": name, "recall": 100 * values["recall"]}
        for g in groups for name, values in g.first.get("per_class", {}).items() if name not in AVERAGES
    ]  # fmt: skip
    if not rows or len({row["class"] for row in rows}) > 40:
        return None
    chart = alt.Chart(inline(rows)).mark_tick(thickness=3, size=16).encode(
        x=alt.X("recall:Q", title="of a class's test images right, %", scale=alt.Scale(zero=False)),
        y=alt.Y("class:N", sort=None, title=None),
        color=alt.Color("model:N", legend=None), tooltip=["model:N", "class:N", alt.Tooltip("recall:Q", format=".1f")],
    )  # fmt: skip
    return Figure("classes", "Class by class", sized(chart, 24 * len({row["class"] for row in rows})), "One mark a model, its first seed.")


@figure_of_data
def confusion(groups: Sequence[Group]) -> Figure | None:
    """As "CIFAR-10 Image Classification Using Performer" and its kind show it; a model at a time on the page."""
    able = [g for g in groups if 2 <= len(g.first.get("confusion") or []) <= MOST_CLASSES]
    best = sorted(able, key=lambda g: -max(g.values("test_top1")))[:MOST_MATRICES]
    if not best:
        return None
    rows = []
    for group in best:
        names = [name for name in group.first["per_class"] if name not in AVERAGES]
        for true, counts in zip(names, group.first["confusion"], strict=True):
            for taken, count in zip(names, counts, strict=True):
                rows.append({"model": group.name, "true": true, "taken for": taken, "count": count, "share": count / max(sum(counts), 1)})
    which = alt.param(
        name="model",
        value=best[0].name,
        bind=alt.binding_select(options=[g.name for g in best], name="model ") if best[1:] else alt.Undefined,
    )
    base = alt.Chart(inline(rows)).transform_filter("datum.model == model").encode(
        x=alt.X("taken for:N", sort=None, axis=alt.Axis(labelAngle=-40)), y=alt.Y("true:N", sort=None),
        tooltip=["true:N", "taken for:N", "count:Q", alt.Tooltip("share:Q", format=".1%")],
    )  # fmt: skip
    cells = base.mark_rect().encode(color=alt.Color("share:Q", title="of the class", scale=alt.Scale(scheme="blues", domain=[0, 1])))
    text = base.mark_text(fontSize=9).encode(
        text="count:Q", color=alt.condition("datum.share > 0.5", alt.value("white"), alt.value("black"))
    )
    side = max(260, 30 * len({row["true"] for row in rows}))
    chart = (cells + text).add_params(which).properties(width=side, height=side)
    says = f"Test images of a class (row) by what {best[0].name if not best[1:] else 'the model'} took them for; the first seed."
    return Figure("confusion", "Confusion", chart, says)


@figure_of_data
def conversion(groups: Sequence[Group]) -> Figure | None:
    rows = [
        {"model": g.name, "layer": layer["layer"], "error": 100 * error}
        for g in groups for layer in g.first.get("conversion", {}).get("layers", [])
        if (error := layer["error"]) is not None and abs(error) <= MOST
    ]  # fmt: skip
    if not rows:
        return None
    chart = alt.Chart(inline(rows)).mark_line(point=True).encode(
        x=alt.X("layer:O"), y=alt.Y("error:Q", title="off the old attention's output, %"),
        color=alt.Color("model:N", title=None, legend=alt.Legend(labelLimit=320)),
        tooltip=["model:N", "layer:O", alt.Tooltip("error:Q", format=".1f")],
    )  # fmt: skip
    return Figure(
        "conversion", "Error of converted layers", sized(chart), "Right after conversion, for what each layer gets in the old model."
    )
