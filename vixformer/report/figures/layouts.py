"""Layouts over depth, kernels and features, as "Hybrid Transformer Models with Performer and Regular Attention" shows
them."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Sequence

import altair as alt

from vixformer.jsonfile import Values
from vixformer.report.figures.figure import Figure, figure_of_alike, inline, sized
from vixformer.results.groups import LAYOUTS, Group

KERNELS = ("relu", "softmax")
X = alt.X("layout:N", sort=list(LAYOUTS), title=None, axis=alt.Axis(labelAngle=0))
TOP1 = "test top-1, %"
FEATURES = re.compile(r"features=\d+")
ENDS = ("worst", "average", "best")
"""Of the configurations of a layout."""


def _placed(groups: Sequence[Group]) -> list[Values]:
    rows = []
    for group in groups:
        layout, top1 = group.layout(), group.spread("test_top1")
        if layout is None:
            continue
        train = [history[-1]["train_top1"] for history in group.histories() if history and "train_top1" in history[-1]]
        seconds, inference, calls = (
            group.spread(key) for key in ("seconds_an_epoch", "inference_ms_mean", "inference_ms_sd")
        )
        band = {"seconds": (seconds.sd if seconds else None) or 0.0, "inference": calls.mean if calls else 0.0}
        rows.append(
            {"model": group.name, "layout": layout.place,
             "kernel": layout.kernel or "exact", "features": layout.features,
             "series": f"{FEATURES.sub('', group.attention)} {group.runs[0].recipe.train.weights is not None}",
             "top1": top1.mean if top1 else None,
             "band": band | {"top1": top1.sd or 0.0 if top1 else 0.0, "train": 0.0},
             "seeds": len(group.runs),
             "train": statistics.fmean(train) if train else None, "seconds": seconds.mean if seconds else None,
             "inference": inference.mean if inference else None}
        )  # fmt: skip
    return rows


def _several_layouts(groups: Sequence[Group]) -> list[Values]:
    rows = [row for row in _placed(groups) if row["top1"] is not None]
    counts = Counter(row["layout"] for row in rows)
    return rows if len(counts) > 2 and max(counts.values()) > 1 else []  # one of each is what the table says


@figure_of_alike
def layouts(groups: Sequence[Group]) -> Figure | None:
    rows = []
    placed = _several_layouts(groups)
    for layout in LAYOUTS:
        tops = [row["top1"] for row in placed if row["layout"] == layout]
        if tops:
            found = dict(zip(ENDS, (min(tops), statistics.fmean(tops), max(tops)), strict=True))
            rows.append({"layout": layout, **found, "configurations": len(tops)})
    if not rows:
        return None
    base = alt.Chart(inline(rows)).encode(
        x=X,
        tooltip=["layout:N", "configurations:Q", *(alt.Tooltip(f"{key}:Q", format=".2f") for key in ENDS)],
    )
    reach = base.mark_rule(strokeWidth=10, opacity=0.35).encode(
        y=alt.Y("worst:Q", title=TOP1, scale=alt.Scale(zero=False)), y2="best:Q"
    )
    middle = base.mark_tick(thickness=3, size=26).encode(y=alt.Y("average:Q", title=TOP1))
    says = (
        "Bars reach from the worst to the best configuration (kernel and number of features) of a layout, each the mean"
        " over its seeds. The tick is their average."
    )
    return Figure("layouts", "Layouts over depth", sized(reach + middle), says)


@figure_of_alike
def best_layouts(groups: Sequence[Group]) -> Figure | None:
    placed = _several_layouts(groups)
    rows = []
    for layout in LAYOUTS[1:]:
        some = [row for row in placed if row["layout"] == layout]
        if some:
            best = max(some, key=lambda row: row["top1"])
            rows.append(
                {**best, "low": best["top1"] - best["band"]["top1"], "high": best["top1"] + best["band"]["top1"]}
            )
    exact = [row for row in placed if row["layout"] == "standard"]
    if not rows or not exact:
        return None
    base = alt.Chart(inline([*rows, *exact]))
    is_exact = "datum.layout == 'standard'"
    others = base.transform_filter(f"!({is_exact})")
    bars = others.mark_point(filled=True, size=110).encode(
        x=X,
        y=alt.Y("top1:Q", title=TOP1, scale=alt.Scale(zero=False)),
        color=alt.Color("kernel:N"), tooltip=["model:N", "features:Q", alt.Tooltip("top1:Q", format=".2f"), "seeds:Q"],
    )  # fmt: skip
    errors = others.mark_rule().encode(x=alt.X("layout:N", sort=list(LAYOUTS)), y="low:Q", y2="high:Q")
    line = base.transform_filter(is_exact).mark_rule(strokeDash=[5, 3], color="gray").encode(y="top1:Q")
    says = (
        "The best configuration of each layout, with one standard deviation over seeds; the dashed line is exact"
        " attention. The best of several configurations looks better than it is."
    )
    return Figure("best-layouts", "The best of each layout", sized(bars + errors + line), says)


@figure_of_alike
def kernels(groups: Sequence[Group]) -> Figure | None:
    rows = [row for row in _several_layouts(groups) if row["kernel"] in KERNELS]
    if len({row["kernel"] for row in rows}) < 2:
        return None
    base = alt.Chart(inline(rows)).encode(
        x=X, xOffset="kernel:N",
        color="kernel:N",
    )  # fmt: skip
    points = base.mark_point(filled=True, size=60).encode(
        y=alt.Y("top1:Q", title=TOP1, scale=alt.Scale(zero=False)),
        tooltip=["model:N", "features:Q", alt.Tooltip("top1:Q", format=".2f"), "seeds:Q"],
    )
    middle = base.mark_tick(thickness=3, size=22).encode(y="mean(top1):Q")
    says = "One point per number of features, the mean over its seeds. The tick is the mean of the points."
    return Figure("kernels", "ReLU and softmax features", sized(points + middle), says)


def _against_features(
    groups: Sequence[Group], keys: dict[str, str], name: str, title: str, axis: str, says: str
) -> Figure | None:
    placed = [row for row in _placed(groups) if row["features"] is not None]
    rows = [
        {**{k: row[k] for k in ("model", "layout", "kernel", "features", "series", "seeds")}, "of": what,
         "value": row[key],
         "low": row[key] - row["band"][key], "high": row[key] + row["band"][key]}
        for row in placed for key, what in keys.items() if row[key] is not None
    ]  # fmt: skip
    # a point is no line
    rows = [row for row in rows if len({r["features"] for r in rows if r["series"] == row["series"]}) > 1]
    if not rows:
        return None
    stroke = alt.Legend(symbolType="stroke", symbolSize=300)
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("features:Q", scale=alt.Scale(type="log", base=2), title="features",
        axis=alt.Axis(values=[2**i for i in range(3, 11)])),
        color=alt.Color("layout:N", sort=list(LAYOUTS), legend=alt.Legend(symbolOpacity=1)),
        tooltip=["model:N", "of:N", alt.Tooltip("value:Q", format=".2f"), "seeds:Q"],
    )  # fmt: skip
    y = alt.Y("value:Q", title=axis, scale=alt.Scale(zero=False))
    line = base.mark_line().encode(detail="series:N", strokeDash=alt.StrokeDash("kernel:N", legend=stroke), y=y)
    points = base.mark_circle().encode(y=y)
    band = base.mark_area(opacity=0.12).encode(y=alt.Y("low:Q", title=axis), y2="high:Q", detail="series:N")
    faceted = sized(band + line + points, 220).facet(facet=alt.Facet("of:N", title=None), columns=2)
    return Figure(name, title, faceted.resolve_scale(y="independent"), says)


@figure_of_alike
def features(groups: Sequence[Group]) -> Figure | None:
    says = (
        "The band of test accuracy is one standard deviation over seeds either way; training accuracy is of the last"
        " epoch."
    )
    return _against_features(
        groups, {"top1": "test", "train": "train"}, "features", "Accuracy against features", "top-1, %", says
    )


@figure_of_alike
def times(groups: Sequence[Group]) -> Figure | None:
    keys = {"seconds": "training, s an epoch", "inference": "inference of a batch, ms"}
    says = (
        "Means over runs. Bands are one standard deviation either way: of training over seeds, of inference over the"
        " calls of a run. Each run measured its own times; they were not measured in turn."
    )
    return _against_features(groups, keys, "times", "Time against features", "time", says)
