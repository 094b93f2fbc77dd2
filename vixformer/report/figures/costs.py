"""Accuracy against what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise, product

import altair as alt
from PIL import ImageFont

from vixformer.jsonfile import Values
from vixformer.report.figures.figure import HEIGHT, WIDTH, Figure, brief, figure, inline, sized
from vixformer.results.groups import Group
from vixformer.results.timings import timed_together

KINDS = {"exact": "exact attention", "front": "Pareto front", "other": "others"}
COLORS = dict(zip(KINDS.values(), ("var(--ink)", "var(--c1)", "var(--faint)"), strict=True))
LEAST_POINTS = 5.0
"""The least part of the accuracy axis that is shown: noise would fill a shorter one."""
LEAST_RATIO = 1.6
"""And of the axis of costs."""
STEPS = (
    *(10, 20, 50, 30, 70, 40, 60, 80, 90),
    *(15, 12, 14, 25, 16, 18, 35, 45),
    *(n for n in range(10, 100) if n % 5 == 0),
    *range(10, 100),
)
"""Of an axis of costs, the easiest to read first."""
MOST_TICKS = 7
FEW = 12
"""Of more models, only exact attention and the front have lines to their names."""
WIDEST = 1.2
"""Letters of other fonts are wider than those measured by at most this."""
SPOT = 0.5
"""Letters that a point takes either way."""


def _against(groups: Sequence[Group], key: str, name: str, axis: str) -> Figure | None:
    names, rows = brief(groups), []
    together = timed_together(groups) if key == "inference_ms_min" else {}
    for group in groups:
        top1, spread = group.spread("test_top1"), group.spread(key)
        cost = together.get(group.name) or (spread.mean if spread else 0)
        if top1 is None or cost <= 0:  # a model that was converted and not trained took no time
            continue
        half = top1.sd or 0.0
        rows.append(
            {"model": group.name, "name": names[group.name], "attention": group.attention, "top1": top1.mean,
             "cost": cost,
             "low": top1.mean - half, "high": top1.mean + half, "seeds": top1.count,
             "kind": KINDS["exact" if group.exact else "other"]}
        )  # fmt: skip
    if len({row["cost"] for row in rows}) < 2:
        return None
    for row in rows:
        row["front"] = not any(o["cost"] <= row["cost"] and o["top1"] >= row["top1"] and o is not row for o in rows)
        if row["front"] and row["kind"] == KINDS["other"]:
            row["kind"] = KINDS["front"]
    wide = _stretched([math.log(row["cost"]) for row in rows], math.log(LEAST_RATIO))
    high = _stretched([row["top1"] for row in rows], LEAST_POINTS)
    places = partial(_placed, rows, wide, high)
    scale = alt.Scale(type="log", nice=False, domain=[math.exp(end) for end in wide])
    ticks = alt.Axis(values=_round(*wide), grid=False, format="~s" if key == "parameters" else ",~g")

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=axis, scale=scale, axis=ticks)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", title="test top-1, %", scale=alt.Scale(nice=False, zero=False, domain=list(high)))

    base = alt.Chart(inline(places(WIDTH, HEIGHT, 10))).encode(x=x("cost"), y=y("top1"))
    kinds = [kind for kind in KINDS.values() if any(row["kind"] == kind for row in rows)]
    shapes = dict(zip(KINDS.values(), ("diamond", "circle", "circle"), strict=True))
    points = base.mark_point(filled=True, opacity=1).encode(
        shape=alt.Shape("kind:N", title=None, scale=alt.Scale(domain=kinds, range=[shapes[kind] for kind in kinds])),
        color=alt.Color("kind:N", title=None, scale=alt.Scale(domain=kinds, range=[COLORS[kind] for kind in kinds])),
        tooltip=["model:N", "attention:N", alt.Tooltip("top1:Q", format=".2f"), alt.Tooltip("cost:Q", format=",.2f"),
        "seeds:Q"],
    )  # fmt: skip
    bars = base.mark_rule(opacity=0.35, clip=True).encode(y=y("low"), y2="high:Q")
    line = (
        base.transform_filter("datum.front")
        .mark_line(strokeDash=[4, 3], color="var(--quiet)", strokeWidth=1)
        .encode(order="cost:Q")
    )
    led = base.transform_filter("datum.led").mark_rule(strokeWidth=0.6).encode(x2="lx:Q", y2="ly:Q")
    told = base.transform_filter("isValid(datum.lx)").mark_text(baseline="middle", align={"expr": "datum.align"})  # pyright: ignore
    chart = sized(alt.layer(bars, line, led, points, told.encode(x=x("lx"), y=y("ly"), text="name:N")))
    says = (
        "Means over seeds; vertical lines are one standard deviation either way. "
        "The dashed line is the Pareto front: no other model is both cheaper and more accurate."
    )
    letters = math.ceil(sum(map(len, kinds)) / len(kinds))  # each column is as wide as its own words
    return Figure(f"pareto-{name}", f"Accuracy against {axis}", chart, says, letters, place=places)


def _stretched(values: Sequence[float], least: float) -> tuple[float, float]:
    """The ends of an axis with room for names."""
    low, high = min(values), max(values)
    room = max(least - (high - low), 0.2 * (high - low)) / 2
    return low - room, high + room


def _round(low: float, high: float) -> list[float]:
    """Costs between these logarithms that are easy to read, and far enough from each other."""
    powers = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)))
    some: list[float] = []
    for step in STEPS:
        for tick in (float(f"{step}e{power - 1}") for power in powers):
            apart = min((abs(math.log(tick / other)) for other in some), default=math.inf)
            if low <= math.log(tick) <= high and apart >= (high - low) / MOST_TICKS:
                some.append(tick)
    return sorted(some)


@cache
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def _width(text: str, size: float) -> float:
    return max(WIDEST * _font(size).getlength(text), 0.62 * size * len(text))  # of a font whose letters are all alike


PLACE = ("lx", "ly", "led", "align")
"""What a row says of the place of its name."""
Box = tuple[float, float, float, float]


def _placed(
    rows: Sequence[Values],
    wide: tuple[float, float],
    high: tuple[float, float],
    width: float,
    height: float,
    size: float,
) -> list[Values]:
    """The rows with a place for each name (lx, ly in units of the axes) that no point and no other name takes, and a
    line to it where it is not beside its point. Names lie on the front only where there is no other room. Exact
    attention and the front come first; a name without room is left to the table."""
    across, up = width / (wide[1] - wide[0]), height / (high[1] - high[0])
    spots = [((math.log(row["cost"]) - wide[0]) * across, (high[1] - row["top1"]) * up) for row in rows]
    spot = SPOT * size
    taken: list[Box] = [(x - spot, y - spot, x + spot, y + spot) for x, y in spots]
    found = [{**row, "lx": None, "ly": None, "led": False, "align": "left"} for row in rows]
    front = sorted(spot for spot, row in zip(spots, rows, strict=True) if row["front"])
    order = sorted(range(len(rows)), key=lambda i: (rows[i]["kind"] == KINDS["other"], -rows[i]["top1"]))
    for i in order:
        long = _width(rows[i]["name"], size)
        lines = rows[i]["kind"] != KINDS["other"] or len(rows) <= FEW
        places = product((False, True)[: 1 + lines], _candidates(*spots[i], size, lines))
        for crossing, (x, y, align, led) in places:
            left = x - {"left": 0, "center": long / 2, "right": long}[align]
            box = (left - 1, y - 0.6 * size, left + long + 1, y + 0.6 * size)
            inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= height
            crossed = not crossing and any(_crosses(box, *ends) for ends in pairwise(front))
            if inside and not crossed and not any(_over(box, other) for other in taken):
                found[i] |= {"lx": math.exp(wide[0] + x / across), "ly": high[1] - y / up, "led": led, "align": align}
                taken.append(box)
                break
    return found


def _candidates(x: float, y: float, size: float, lines: bool) -> Iterator[tuple[float, float, str, bool]]:
    beside, over = (SPOT + 0.2) * size, (SPOT + 0.7) * size
    yield from ((x + beside, y, "left", False), (x - beside, y, "right", False))
    yield from ((x, y - over, "center", False), (x, y + over, "center", False))
    for reach in (2.2 * size, 4 * size) if lines else ():
        for turn in (-45, 45, -135, 135, -20, 20, -160, 160):
            dx, dy = reach * math.cos(math.radians(turn)), reach * math.sin(math.radians(turn))
            yield x + dx, y + dy, "left" if dx > 0 else "right", True


def _crosses(box: Box, a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether the line from a to b has a part in the box."""
    enters, leaves = 0.0, 1.0
    for start, end, low, high in ((a[0], b[0], box[0], box[2]), (a[1], b[1], box[1], box[3])):
        if start == end:
            if not low < start < high:
                return False
            continue
        first, last = sorted(((low - start) / (end - start), (high - start) / (end - start)))
        enters, leaves = max(enters, first), min(leaves, last)
    return enters < leaves


def _over(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


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
def pareto_parameters(groups: Sequence[Group]) -> Figure | None:
    return _against(groups, "parameters", "parameters", "parameters")
