"""What was learned: curves, classes, confusion, and how far converted layers are off."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import altair as alt

from vixformer.report.figures.figure import OTHERS, Figure, colored, colors, figure, inline, longest, sized
from vixformer.results.groups import Group
from vixformer.results.runs import Run
from vixformer.results.schema import AVERAGES, MOST

MOST_CLASSES, MOST_MATRICES = 20, 4


def running(runs: Sequence[Run]) -> Figure | None:
    """The curves of runs that are not finished, each by itself."""
    found = curves([Group(run.folder.name, (run,)) for run in runs])
    title = "Runs that are still training"
    return None if found is None else replace(found, name="running", title=title, says="One seed each.")


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
    rows, names = [], colored(groups)
    for group in groups:
        histories = group.histories()
        for epoch in range(max((len(h) for h in histories), default=0)):
            for key, what in keys.items():
                values = [h[epoch][key] for h in histories if epoch < len(h) and key in h[epoch]]
                if values:
                    mean, low, high = statistics.fmean(values), min(values), max(values)
                    told = {"model": group.name, "shown": names[group.name], "number": f"{group.name} {key}"}
                    rows.append({**told, "epoch": epoch + 1, "of": what, "value": mean, "low": low, "high": high})
    last = max((row["epoch"] for row in rows), default=0)
    if last < 2:  # a point is no curve
        return None
    rows.sort(key=lambda row: row["shown"] != OTHERS)  # which stay behind
    panels = [what for what in dict.fromkeys(keys.values()) if any(row["of"] == what for row in rows)]
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("epoch:Q", axis=alt.Axis(format="d", values=_ticks(last), grid=False)),
        color=colors(names, legend=alt.Legend(symbolType="stroke", symbolSize=300, symbolOpacity=1,
        symbolStrokeWidth=2)),
        detail="number:N",
    )  # fmt: skip
    line = base.mark_line(point={"size": 12} if last < 30 else False).encode(
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
        tooltip=["model:N", "epoch:Q", alt.Tooltip("value:Q", format=".3f")],
    )
    layers = [line]
    if any(row["low"] < row["high"] for row in rows):
        layers.insert(0, base.mark_area(opacity=0.12).encode(y="low:Q", y2="high:Q"))
    facet = alt.Facet("of:N", title=None, sort=panels)
    chart = sized(alt.layer(*layers), 200).facet(facet=facet, columns=3 if len(panels) > 4 else 2)
    chart = chart.resolve_scale(y="independent")
    says = "Means over seeds; bands are from the lowest to the highest seed." if len(layers) > 1 else "One seed."
    if OTHERS in names.values():
        says += (
            " In color: the best models and exact attention; in gray: the other"
            f" {sum(name == OTHERS for name in names.values())}."
        )
    return Figure(name, title, chart, says, longest(names.values()))


def _ticks(last: int) -> list[int]:
    return list(range(1, last + 1, max(1, round(last / 8))))


@figure
def classes(groups: Sequence[Group]) -> Figure | None:
    names = colored(groups)
    rows = [
        {"model": g.name, "shown": names[g.name], "class": name, "recall": 100 * values["recall"]}
        for g in groups for name, values in g.first.get("per_class", {}).items() if name not in AVERAGES
    ]  # fmt: skip
    if not rows or len({row["class"] for row in rows}) > 40:
        return None
    rows.sort(key=lambda row: row["shown"] != OTHERS)
    chart = alt.Chart(inline(rows)).mark_tick(thickness=3, size=16).encode(
        x=alt.X("recall:Q", title="recall, %", scale=alt.Scale(zero=False)), y=alt.Y("class:N", sort=None, title=None),
        color=colors(names), tooltip=["model:N", "class:N", alt.Tooltip("recall:Q", format=".1f")],
    )  # fmt: skip
    says = "Share of the test images of each class that a model classifies correctly; its first seed."
    height = 24 * len({row["class"] for row in rows})
    return Figure("classes", "Recall of each class", sized(chart, height), says, longest(names.values()), by_rows=True)


@figure
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
                told = {"model": group.name, "true": true, "predicted": taken, "count": count}
                rows.append({**told, "share": count / max(sum(counts), 1)})
    which = alt.param(
        name="model",
        value=best[0].name,
        bind=alt.binding_select(options=[g.name for g in best], name="model ") if best[1:] else alt.Undefined,
    )
    base = alt.Chart(inline(rows)).transform_filter("datum.model == model").encode(
        x=alt.X("predicted:N", sort=None, axis=alt.Axis(labelAngle=-40)), y=alt.Y("true:N", sort=None),
        tooltip=["true:N", "predicted:N", "count:Q", alt.Tooltip("share:Q", format=".1%")],
    )  # fmt: skip
    cells = base.mark_rect().encode(
        color=alt.Color("share:Q", title="share of the class", scale=alt.Scale(scheme="blues", domain=[0, 1]))
    )
    text = base.mark_text().encode(
        text="count:Q", color=alt.condition("datum.share > 0.5", alt.value("white"), alt.value("black"))
    )
    side = max(260, 30 * len({row["true"] for row in rows}))
    chart = (cells + text).add_params(which).properties(width=side, height=side)
    says = (
        f"Test images of each class (row) by the class that {'the model' if best[1:] else best[0].name} predicted; its"
        " first seed."
    )
    return Figure("confusion", "Confusion matrix", chart, says, by_rows=True)


@figure
def conversion(groups: Sequence[Group]) -> Figure | None:
    able = [g for g in groups if g.first.get("conversion", {}).get("layers")]
    names = colored(able)
    rows = [
        {"model": g.name, "shown": names[g.name], "layer": layer["layer"], "error": 100 * error}
        for g in able
        for layer in g.first["conversion"]["layers"]
        if (error := layer["error"]) is not None and abs(error) <= MOST
    ]
    if len({row["layer"] for row in rows}) < 2:
        return None
    chart = alt.Chart(inline(rows)).mark_line(point=True).encode(
        x=alt.X("layer:O"), y=alt.Y("error:Q", title="error of the output, %"), color=colors(names), detail="model:N",
        tooltip=["model:N", "layer:O", alt.Tooltip("error:Q", format=".1f")],
    )  # fmt: skip
    says = (
        "Output of each converted layer against that of the layer it replaces, for the same input, before any training."
    )
    return Figure("conversion", "Error of converted layers", sized(chart), says, longest(names.values()))
