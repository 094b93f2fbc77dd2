"""Figures: a chart definition each, from groups of runs; None where the runs do not have what it shows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from vixformer.report.facts import LAYOUTS, Group

WIDTH, HEIGHT = 460, 260
KERNELS = ("relu", "softmax")


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
    return [found for make in FIGURES if (found := make(groups)) is not None]


def _data(rows: Iterable[dict[str, Any]]) -> Any:
    return alt.Data(values=list(rows))


def _sized(chart: Any, height: int = HEIGHT) -> Any:
    return chart.properties(width=WIDTH, height=height)


# --- accuracy against cost


def _against(groups: Sequence[Group], key: str, name: str, axis: str) -> Figure | None:
    rows = []
    for group in groups:
        top1, cost = group.spread("test_top1"), group.spread(key)
        if top1 is None or cost is None:
            continue
        half = top1.sd or 0.0
        rows.append(
            {"model": group.name, "data": group.data, "attention": group.attention, "top1": top1.mean,
             "low": top1.mean - half, "high": top1.mean + half,
             "cost": cost.mean, "seeds": top1.count, "exact": group.exact}
        )  # fmt: skip
    if len(rows) < 2:
        return None
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("cost:Q", title=axis, scale=alt.Scale(type="log", nice=False, padding=12)),
        color=alt.Color("model:N", legend=None),
        tooltip=["model:N", "attention:N", alt.Tooltip("top1:Q", format=".2f"), alt.Tooltip("cost:Q", format=".2f"), "seeds:Q"],
    )
    points = base.mark_point(filled=True, size=90).encode(
        y=alt.Y("top1:Q", title="test top-1, %", scale=alt.Scale(zero=False)), shape=alt.Shape("exact:N", title="exact attention")
    )
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title="test top-1, %"), y2="high:Q")
    for row in rows:
        row["front"] = not any(
            o["cost"] <= row["cost"] and o["top1"] >= row["top1"] and o is not row for o in rows if o["data"] == row["data"]
        )
    line = base.transform_filter("datum.front").mark_line(strokeDash=[4, 3], opacity=0.7)
    line = line.encode(y="top1:Q", color=alt.value("gray"), order="cost:Q")
    says = (
        "Mean over seeds; bars are one standard deviation, none where there is one seed. "
        "The dashed line joins what nothing else beats in both."
    )
    return Figure(f"pareto-{name}", f"Accuracy against {axis}", _by_data(bars + points + line, rows, x="independent"), says)


@figure
def pareto_inference(groups: Sequence[Group]) -> Figure | None:
    return _against(groups, "inference_ms_min", "inference", "inference of a batch, ms")


@figure
def pareto_training(groups: Sequence[Group]) -> Figure | None:
    return _against(groups, "train_seconds", "training", "training, s")


@figure
def pareto_memory(groups: Sequence[Group]) -> Figure | None:
    return _against(groups, "peak_train_mb", "memory", "peak memory of a training step, MiB")


@figure
def bubbles(groups: Sequence[Group]) -> Figure | None:
    """As "Vision Xformers" shows it."""
    rows = [
        {"model": g.name, "top1": top1.mean, "memory": memory.mean, "parameters": g.first["parameters"]}
        for g in groups if (top1 := g.spread("test_top1")) and (memory := g.spread("peak_train_mb"))
    ]  # fmt: skip
    if len(rows) < 2:
        return None
    chart = alt.Chart(_data(rows)).mark_circle(opacity=0.6).encode(
        x=alt.X("memory:Q", title="peak memory of a training step, MiB", scale=alt.Scale(zero=False)),
        y=alt.Y("top1:Q", title="test top-1, %", scale=alt.Scale(zero=False)),
        size=alt.Size("parameters:Q", title="parameters"),
        color=alt.Color("model:N", legend=None),
        tooltip=["model:N", alt.Tooltip("top1:Q", format=".2f"),
            alt.Tooltip("memory:Q", format=".0f"), alt.Tooltip("parameters:Q", format=",")],
    )  # fmt: skip
    return Figure("bubbles", "Accuracy, memory and parameters", _sized(chart), "The area of a circle is the number of parameters.")


# --- layouts, kernels, features


def _placed(groups: Sequence[Group]) -> list[dict[str, Any]]:
    rows = []
    for group in groups:
        layout, top1 = group.layout(), group.spread("test_top1")
        if layout is None or top1 is None:
            continue
        train = [history[-1]["train_top1"] for history in group.histories() if history]
        seconds, inference = group.spread("seconds_an_epoch"), group.spread("inference_ms_min")
        rows.append(
            {"model": group.name, "data": group.data, "layout": layout.place,
             "kernel": layout.kernel or "exact", "features": layout.features,
             "top1": top1.mean, "low": top1.mean - (top1.sd or 0), "high": top1.mean + (top1.sd or 0), "seeds": top1.count,
             "train": statistics.fmean(train) if train else None, "seconds": seconds.mean if seconds else None,
             "inference": inference.mean if inference else None}
        )  # fmt: skip
    return rows


def _several_layouts(groups: Sequence[Group]) -> list[dict[str, Any]]:
    rows = _placed(groups)
    return rows if len({row["layout"] for row in rows}) > 2 else []


@figure
def layouts(groups: Sequence[Group]) -> Figure | None:
    rows = []
    placed = _several_layouts(groups)
    for data in sorted({row["data"] for row in placed}):
        for layout in LAYOUTS:
            values = [row["top1"] for row in placed if (row["data"], row["layout"]) == (data, layout)]
            if values:
                found = {"worst": min(values), "average": statistics.fmean(values), "best": max(values)}
                rows.append({"data": data, "layout": layout, **found, "configurations": len(values)})
    if not rows:
        return None
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("layout:N", sort=list(LAYOUTS), title=None, axis=alt.Axis(labelAngle=0)),
        tooltip=["layout:N", "configurations:Q", *(alt.Tooltip(f"{key}:Q", format=".2f") for key in ("worst", "average", "best"))],
    )
    reach = base.mark_rule(strokeWidth=10, opacity=0.35).encode(
        y=alt.Y("worst:Q", title="test top-1, %", scale=alt.Scale(zero=False)), y2="best:Q"
    )
    middle = base.mark_tick(thickness=3, size=26).encode(y=alt.Y("average:Q", title="test top-1, %"))
    says = "From the worst to the best of the kernels and features of a layout, each the mean over its seeds; the tick is their average."
    return Figure("layouts", "Layouts over depth", _by_data(reach + middle, rows), says)


@figure
def best_layouts(groups: Sequence[Group]) -> Figure | None:
    placed = _several_layouts(groups)
    rows = []
    for data in {row["data"] for row in placed}:
        for layout in LAYOUTS[1:]:
            some = [row for row in placed if (row["data"], row["layout"]) == (data, layout)]
            if some:
                rows.append(max(some, key=lambda row: row["top1"]))
    exact = [row for row in placed if row["layout"] == "standard"]
    if not rows or not exact:
        return None
    base = alt.Chart(_data([*rows, *exact]))
    is_exact = "datum.layout == 'standard'"
    bars = base.transform_filter(f"!({is_exact})").mark_point(filled=True, size=110).encode(
        x=alt.X("layout:N", sort=list(LAYOUTS), title=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("top1:Q", title="test top-1, %", scale=alt.Scale(zero=False)),
        color=alt.Color("kernel:N"), tooltip=["model:N", "features:Q", alt.Tooltip("top1:Q", format=".2f"), "seeds:Q"],
    )  # fmt: skip
    errors = base.transform_filter(f"!({is_exact})").mark_rule().encode(x=alt.X("layout:N", sort=list(LAYOUTS)), y="low:Q", y2="high:Q")
    line = base.transform_filter(is_exact).mark_rule(strokeDash=[5, 3], color="gray").encode(y="top1:Q")
    says = (
        "The best configuration of each layout, with one standard deviation over seeds; the dashed line is exact attention. "
        "Being the best of several makes a bar look better than it is."
    )
    return Figure("best-layouts", "The best of each layout", _by_data(bars + errors + line, rows), says)


@figure
def kernels(groups: Sequence[Group]) -> Figure | None:
    rows = [row for row in _several_layouts(groups) if row["kernel"] in KERNELS]
    if len({row["kernel"] for row in rows}) < 2:
        return None
    chart = alt.Chart(_data(rows)).mark_boxplot(size=14).encode(
        x=alt.X("layout:N", sort=list(LAYOUTS), title=None, axis=alt.Axis(labelAngle=0)), xOffset="kernel:N", color="kernel:N",
        y=alt.Y("top1:Q", title="test top-1, %", scale=alt.Scale(zero=False)),
    )  # fmt: skip
    return Figure(
        "kernels", "ReLU and softmax features", _by_data(chart, rows), "Over the numbers of features, each the mean over its seeds."
    )


def _against_features(groups: Sequence[Group], keys: dict[str, str], name: str, title: str, axis: str, says: str) -> Figure | None:
    placed = [row for row in _placed(groups) if row["features"] is not None]
    rows = [
        {**{k: row[k] for k in ("model", "data", "layout", "kernel", "features", "seeds")}, "of": what, "value": row[key],
         "low": row["low"] if key == "top1" else row[key], "high": row["high"] if key == "top1" else row[key]}
        for row in placed for key, what in keys.items() if row[key] is not None
    ]  # fmt: skip
    if len({row["features"] for row in rows}) < 2:
        return None
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("features:Q", scale=alt.Scale(type="log", base=2), title="features", axis=alt.Axis(values=[2**i for i in range(3, 11)])),
        color=alt.Color("layout:N", sort=list(LAYOUTS)), strokeDash=alt.StrokeDash("kernel:N"),
        tooltip=["model:N", "of:N", alt.Tooltip("value:Q", format=".2f"), "seeds:Q"],
    )  # fmt: skip
    line = base.mark_line(point=True).encode(y=alt.Y("value:Q", title=axis, scale=alt.Scale(zero=False)))
    errors = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title=axis), y2="high:Q")
    faceted = (
        _sized(line + errors, 220)
        .facet(row=alt.Row("data:N", title=None), column=alt.Column("of:N", title=None))
        .resolve_scale(y="independent")
    )
    return Figure(name, title, faceted, says)


@figure
def features(groups: Sequence[Group]) -> Figure | None:
    says = "Test with one standard deviation over seeds; training accuracy of the last epoch."
    return _against_features(groups, {"top1": "test", "train": "train"}, "features", "Accuracy against features", "top-1, %", says)


@figure
def times(groups: Sequence[Group]) -> Figure | None:
    keys = {"seconds": "training, s an epoch", "inference": "inference of a batch, ms"}
    return _against_features(
        groups, keys, "times", "Time against features", "time", "Means over seeds, from the runs themselves, not in turn."
    )


def _by_data(chart: Any, rows: Sequence[dict[str, Any]], x: str = "shared") -> Any:
    """One panel a data set."""
    if len({row["data"] for row in rows}) < 2:
        return _sized(chart)
    return _sized(chart).facet(column=alt.Column("data:N", title=None)).resolve_scale(x=x, y="independent")


# --- curves


@figure
def curves(groups: Sequence[Group]) -> Figure | None:
    keys = {
        "train_loss": "training loss",
        "val_loss": "validation loss",
        "train_top1": "training top-1, %",
        "val_top1": "validation top-1, %",
    }
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
                            "epoch": epoch + 1,
                            "of": what,
                            "value": statistics.fmean(values),
                            "low": min(values),
                            "high": max(values),
                        }
                    )
    if not rows:
        return None
    pick = alt.selection_point(fields=["model"], bind="legend")
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1)),
        color=alt.Color("model:N", title=None, legend=alt.Legend(labelLimit=320, symbolLimit=60)),
        opacity=alt.condition(pick, alt.value(1.0), alt.value(0.08)),
    )  # fmt: skip
    line = base.mark_line(point=True).encode(
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)), tooltip=["model:N", "epoch:Q", alt.Tooltip("value:Q", format=".3f")]
    )
    band = base.mark_area().encode(y="low:Q", y2="high:Q", opacity=alt.condition(pick, alt.value(0.15), alt.value(0.0)))
    panels = (
        _sized(band + line, 200)
        .add_params(pick)
        .facet(facet=alt.Facet("of:N", title=None, sort=list(keys.values())), columns=2)
        .resolve_scale(y="independent")
    )
    return Figure(
        "curves", "Learning curves", panels, "Mean over seeds, and from the lowest to the highest of them. Click a name to see it alone."
    )


# --- classes


@figure
def classes(groups: Sequence[Group]) -> Figure | None:
    rows = [
        {"model": g.name, "class": name, "recall": 100 * values["recall"]}
        for g in groups for name, values in g.first.get("per_class", {}).items() if name not in ("accuracy", "macro avg", "weighted avg")
    ]  # fmt: skip
    if not rows or len({row["class"] for row in rows}) > 40:
        return None
    chart = alt.Chart(_data(rows)).mark_tick(thickness=3, size=16).encode(
        x=alt.X("recall:Q", title="of a class's test images right, %", scale=alt.Scale(zero=False)),
        y=alt.Y("class:N", sort=None, title=None),
        color=alt.Color("model:N", legend=None), tooltip=["model:N", "class:N", alt.Tooltip("recall:Q", format=".1f")],
    )  # fmt: skip
    return Figure("classes", "Class by class", _sized(chart, 24 * len({row["class"] for row in rows})), "One mark a model, its first seed.")


@figure
def conversion(groups: Sequence[Group]) -> Figure | None:
    rows = [
        {"model": g.name, "layer": layer["layer"], "error": 100 * layer["error"]}
        for g in groups for layer in g.first.get("conversion", {}).get("layers", []) if layer["error"] is not None
    ]  # fmt: skip
    if not rows:
        return None
    chart = alt.Chart(_data(rows)).mark_line(point=True).encode(
        x=alt.X("layer:O"), y=alt.Y("error:Q", title="off the old attention's output, %"),
        color=alt.Color("model:N", title=None, legend=alt.Legend(labelLimit=320)),
        tooltip=["model:N", "layer:O", alt.Tooltip("error:Q", format=".1f")],
    )  # fmt: skip
    return Figure(
        "conversion", "Error of converted layers", _sized(chart), "Right after conversion, for what each layer gets in the old model."
    )
