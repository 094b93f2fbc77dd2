"""From the data, and from what `vix bench` measured."""

from __future__ import annotations

import altair as alt
from torch import Tensor

from vixformer.jsonfile import Values
from vixformer.measure.machine import in_words
from vixformer.report.figures.figure import Figure, inline, longest, sized
from vixformer.results.charts import time_against_tokens


def histogram(data: str, pixels: Tensor) -> Figure:
    """Of uint8 images (images, channels, height, width)."""
    channels = (
        {"gray": "#888888"} if pixels.shape[1] == 1 else {"red": "#d62728", "green": "#2ca02c", "blue": "#1f77b4"}
    )
    rows = []
    for channel, name in enumerate(channels):
        counts = pixels[:, channel].flatten().bincount(minlength=256).view(32, 8).sum(1)
        rows += [
            {"channel": name, "value": 8 * i, "share": c / max(int(counts.sum()), 1)}
            for i, c in enumerate([*counts.tolist(), counts[-1].item()])
        ]
    chart = alt.Chart(inline(rows)).mark_line(interpolate="step-after", strokeWidth=2).encode(
        x=alt.X("value:Q", title="value of a pixel", scale=alt.Scale(domain=[0, 256])),
        y=alt.Y("share:Q", title="share of the pixels", axis=alt.Axis(format="%"), scale=alt.Scale(type="sqrt")),
        color=alt.Color("channel:N", title=None, scale=alt.Scale(domain=list(channels), range=list(channels.values()))),
    )  # fmt: skip
    return Figure(
        f"channels-{data}",
        f"Pixel values, {data}",
        sized(chart, 180),
        f"{len(pixels):,} training images, from all over the set.",
        data=data,
    )


def benched(bench: Values, name: str) -> Figure | None:
    """What `vix bench ... --json` wrote: times over tokens, or how a mechanism compares with exact attention on the way
    to the crossing."""
    where = in_words(bench["machine"])
    if "crossings" in bench:
        rows = [
            {"attention": c["attention"], "tokens": p["tokens"],
             "ratio": p["ratio"]} for c in bench["crossings"] for p in c["probes"]
        ]  # fmt: skip
        base = alt.Chart(inline(rows)).encode(
            x=alt.X("tokens:Q", scale=alt.Scale(type="log", base=2)),
            y=alt.Y("ratio:Q", scale=alt.Scale(type="log"), title="time, to exact attention"),
            color=alt.Color("attention:N", title=None, legend=alt.Legend()),
            tooltip=["attention:N", "tokens:Q", "ratio:Q"],
        )  # fmt: skip
        one = alt.Chart(inline([{"ratio": 1}])).mark_rule(strokeDash=[5, 3], color="gray").encode(y="ratio:Q")
        title, says = (
            "Where linear attention pays",
            f"Below the dashed line it is faster than {bench['against']}. {where}.",
        )
        return Figure(
            name, title, sized(one + base.mark_line(point=True)), says, longest(row["attention"] for row in rows)
        )
    rows = [
        {"attention": r["attention"], "tokens": r["tokens"],
         "microseconds a token": 1e3 * r["time"]["min"] / r["batch"] / r["tokens"]}
        for r in bench["rows"]
    ]  # fmt: skip
    if len({row["tokens"] for row in rows}) < 2:
        return None
    says = f"A level line is a constant time per token. {where}."
    return Figure(
        name, "Time against tokens", time_against_tokens(rows, ""), says, longest(row["attention"] for row in rows)
    )
