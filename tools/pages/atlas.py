"""docs/results/atlas.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vixformer.measure.atlas import Row, read_atlas
from vixformer.results.evidence import MARGIN
from vixformer.results.groups import counted

CHART = "atlas-chart.html"
STARTS = {"scratch": "Trained from scratch", "converted": "Converted from a model with exact attention"}


def page() -> str:
    found = read_atlas()
    parts = [
        "# The atlas: accuracy against exact attention",
        (
            "If you want to know what `vix advise` knows about accuracy, this page lists it: the difference between"
            " each attention and exact attention under the same conditions."
        ),
        (
            "Every row has the mean difference of test top-1, in points, with its 95 % interval. Above zero, the"
            " attention was more accurate than exact attention. Differences are paired by seed and split where both"
            " sides share them. A verdict is *shown*, *ruled out* or *open*, against a margin of"
            f" {MARGIN} points, with Holm's correction for the rows of a table."
        ),
        "Models are small and trainings are short, so read the number of epochs and images above each table first.",
        (
            f"[The chart of accuracy against cost]({CHART}) shows the same rows beside their times and memory. You"
            " choose data, tokens, machine and mechanisms. `vix report --atlas` writes it as a file that needs no"
            " network."
        ),
        f"The atlas has {counted(len(found.rows), 'row')} from {counted(len(_records(found.rows)), 'record')}.",
    ]
    for start, title in STARTS.items():
        parts.append(f"## {title}")
        settings = dict.fromkeys((row.tokens, row.setting) for row in found.rows if row.start == start)
        for _, setting in sorted(settings):
            parts += _section([row for row in found.rows if (row.start, row.setting) == (start, setting)])
    return "\n\n".join(parts)


def _records(rows: Sequence[Row]) -> set[str]:
    return {one for row in rows for one in (*row.records, *row.exact_records)}


def _span(numbers: Iterable[float]) -> str:
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def _section(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    epochs = "1 epoch" if all(row.epochs == 1 for row in rows) else f"{_span(row.epochs for row in rows)} epochs"
    lines = ["| attention | minus exact | verdict | seeds | top-1 % |", "|---|--:|---|--:|--:|"]
    lines += [
        f"| `{row.attention}` | {row.points:+.2f} ({row.low:+.2f} to {row.high:+.2f}) | {row.verdict} | {row.seeds} |"
        f" {row.top1:.1f} |"
        for row in sorted(rows, key=lambda row: -row.points)
    ]
    return [
        f"### {first.data}, {first.tokens:,} tokens (`{first.setting}/*`)",
        (
            f"Trained for {epochs} of {_span(row.images for row in rows)} images, with width {first.width} and depth"
            f" {first.depth}. Exact attention reaches {_span(round(row.exact_top1, 1) for row in rows)} % top-1."
        ),
        "\n".join(lines),
    ]
