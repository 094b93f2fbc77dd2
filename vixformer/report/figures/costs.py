"""Accuracy against what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from vixformer.report.figures.figure import Figure, figure, inline, sized
from vixformer.results.groups import Group

MOST_IN_LEGEND = 12
WIDTH, HEIGHT, LETTER = 420, 250, (6, 14)
"""About how many pixels a chart and a letter of its names take."""


def _against(groups: Sequence[Group], key: str, name: str, axis: str) -> Figure | None:
    rows = []
    for group in groups:
        top1, cost = group.spread("test_top1"), group.spread(key)
        if top1 is None or cost is None or cost.mean <= 0:  # a model that was converted and not trained took no time
            continue
        half, wide = top1.sd or 0.0, cost.sd or 0.0
        rows.append(
            {"model": group.name, "attention": group.attention, "top1": top1.mean,
             "low": top1.mean - half, "high": top1.mean + half,
             "cost": cost.mean, "least": max(cost.mean - wide, cost.mean / 10), "most": cost.mean + wide,
             "seeds": top1.count, "layers": "exact in every layer" if group.exact else "efficient in some"}
        )  # fmt: skip
    if len(rows) < 2:
        return None
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("cost:Q", title=axis, scale=alt.Scale(type="log", nice=False, padding=12)),
        color=alt.Color("model:N", legend=_legend(rows)),
        tooltip=["model:N", "attention:N", alt.Tooltip("top1:Q", format=".2f"), alt.Tooltip("cost:Q", format=".2f"), "seeds:Q"],
    )
    points = base.mark_point(filled=True, size=90).encode(
        y=alt.Y("top1:Q", title="test top-1, %", scale=alt.Scale(zero=False)), shape=alt.Shape("layers:N", title="attention")
    )
    bars = base.mark_rule().encode(y=alt.Y("low:Q", title="test top-1, %"), y2="high:Q")
    wide = base.mark_rule().encode(x=alt.X("least:Q", title=axis), x2="most:Q", y="top1:Q")
    for row in rows:
        row["front"] = not any(o["cost"] <= row["cost"] and o["top1"] >= row["top1"] and o is not row for o in rows)
    _name(rows)
    line = base.transform_filter("datum.front").mark_line(strokeDash=[4, 3], opacity=0.7)
    line = line.encode(y="top1:Q", color=alt.value("gray"), order="cost:Q")
    names = [
        base.transform_filter(f"datum.named == '{side}'").mark_text(align=side, dx=dx, dy=-7, fontSize=10).encode(
            y="top1:Q", text="model:N", color=alt.value("gray")
        )
        for side, dx in (("left", 7), ("right", -7)) if any(row["named"] == side for row in rows)
    ]  # fmt: skip
    says = (
        "Mean over seeds; bars are one standard deviation either way, none where there is one seed. "
        "Joined by the dashed line, and named where there is room, is what nothing else beats in both."
    )
    return Figure(f"pareto-{name}", f"Accuracy against {axis}", sized(alt.layer(bars, wide, points, line, *names)), says)


def _legend(rows: Sequence[Any]) -> alt.Legend | None:
    return alt.Legend(labelLimit=300) if len(rows) <= MOST_IN_LEGEND else None


def _name(rows: Sequence[dict[str, Any]]) -> None:
    """Of the front, from the best down, as many as have room: names over one another can be read by nobody.

    `named` becomes the side on which a name begins, or none.
    """
    left, right = math.log(min(row["least"] for row in rows)), math.log(max(row["most"] for row in rows))
    bottom, top = min(row["low"] for row in rows), max(row["high"] for row in rows)
    taken: list[tuple[float, float, float]] = []
    for row in sorted(rows, key=lambda row: -row["top1"]):
        x = WIDTH * (math.log(row["cost"]) - left) / (right - left or 1.0)
        y = HEIGHT * (row["top1"] - bottom) / (top - bottom or 1.0)
        row["named"] = "none"
        for side, begin in (("left", x), ("right", x - LETTER[0] * len(row["model"]))):
            end = begin + LETTER[0] * len(row["model"])
            apart = all(abs(y - height) > LETTER[1] or end < start or stop < begin for start, stop, height in taken)
            if row["front"] and apart and begin >= -LETTER[0] and end <= WIDTH + LETTER[0]:
                row["named"] = side
                taken.append((begin, end, y))
                break


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
    chart = alt.Chart(inline(rows)).mark_circle(opacity=0.6).encode(
        x=alt.X("memory:Q", title="peak memory of a training step, MiB", scale=alt.Scale(zero=False)),
        y=alt.Y("top1:Q", title="test top-1, %", scale=alt.Scale(zero=False)),
        size=alt.Size("parameters:Q", title="parameters"),
        color=alt.Color("model:N", legend=_legend(rows), scale=alt.Scale(scheme="tableau20")),
        tooltip=["model:N", alt.Tooltip("top1:Q", format=".2f"),
            alt.Tooltip("memory:Q", format=".0f"), alt.Tooltip("parameters:Q", format=",")],
    )  # fmt: skip
    return Figure("bubbles", "Accuracy, memory and parameters", sized(chart), "The area of a circle is the number of parameters.")
