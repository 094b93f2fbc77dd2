"""The atlas as one HTML file: accuracy against cost, both beside exact attention. Its script draws the chart."""

from __future__ import annotations

from collections.abc import Sequence

from vixformer.attention.layout import is_exact, parse
from vixformer.jsonfile import Values
from vixformer.measure.atlas import Row, Start, read_atlas
from vixformer.report.whole import asset, embedded, html
from vixformer.results.groups import counted

STARTS: dict[Start, str] = {"scratch": "from scratch", "converted": "converted from exact attention"}

SHOWN = (
    *("setting", "name", "attention", "top1", "points", "low", "high", "method", "verdict", "seeds", "records"),
    *("memory_ratio", "memory_interval"),
)
"""Of a row; the rest is of its chart."""


def page() -> str:
    data = f'<script type="application/json" id="atlas">{embedded(cells())}</script>'
    return html(None, asset("atlas.js"), data, charts=False)


def cells() -> list[Values]:
    """Sets of rows with one data set, length, budget and exact model: what one chart may show."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in read_atlas().rows:
        key = (row.tokens, row.data, row.setting, row.start, row.epochs, row.images, row.exact_records)
        found.setdefault(key, []).append(row)
    costs = _Costs()
    return [_cell(found[key], costs) for key in sorted(found)]


def _cell(rows: Sequence[Row], costs: _Costs) -> Values:
    first = rows[0]
    return {
        "place": f"{first.data}, {first.tokens:,} tokens",
        "training": (
            f"{STARTS[first.start]}, {counted(first.epochs, 'epoch')} of {first.images:,} images ({first.setting})"
        ),
        "exact": {"top1": first.exact_top1, "records": first.exact_records, "costs": costs.of_exact(first)},
        "rows": [
            {**{k: vars(row)[k] for k in SHOWN}, "mechanisms": _mechanisms(row), "costs": costs.of(row)} for row in rows
        ],
    }


def _mechanisms(row: Row) -> list[str]:
    """Those beside exact attention, if there are any."""
    names = dict.fromkeys(layer.owner.name for layer in parse(row.attention).expand(row.depth))
    return [name for name in names if name != "softmax"] or list(names)


class _Costs:
    """By machine, of the model of a row, or else of a like one: the same attention, tokens and sizes."""

    def __init__(self) -> None:
        found = read_atlas()
        sizes = {row.setting: (row.tokens, row.width, row.depth) for row in found.rows}
        self.all = [(cost, (cost.attention, *sizes[cost.setting])) for cost in found.costs]

    def of(self, row: Row) -> dict[str, Values]:
        like = [cost for cost, sizes in self.all if sizes == (row.attention, row.tokens, row.width, row.depth)]
        own = [cost for cost, _ in self.all if (cost.setting, cost.name) == (row.setting, row.name)]
        return {cost.machine: vars(cost) for cost in (*like, *own)}

    def of_exact(self, row: Row) -> dict[str, Values]:
        return {c.machine: vars(c) for c, _ in self.all if c.setting == row.setting and is_exact(c.attention)}
