"""docs/results/atlas.md."""

from __future__ import annotations

from collections.abc import Sequence

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
            "This page lists what `vix advise` knows about accuracy: how far each attention was from exact attention"
            " under the same conditions."
        ),
        (
            "Every row is the mean difference of test top-1, in points, with its 95 % interval. Differences are paired"
            " by seed and split where both sides share them. A verdict is *shown*, *ruled out* or *open*, against a"
            f" margin of {MARGIN} points, with Holm's correction for the rows of a table. Models are small and"
            " trainings are short, so read the number of epochs and images first."
        ),
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


def _section(rows: Sequence[Row]) -> list[str]:
    first = rows[0]
    epochs = sorted({row.epochs for row in rows})
    trained = counted(epochs[0], "epoch") if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]} epochs"
    lines = ["| attention | minus exact | verdict | seeds | top-1 % |", "|---|--:|---|--:|--:|"]
    lines += [
        f"| `{row.attention}` | {row.points:+.2f} ({row.low:+.2f} to {row.high:+.2f}) | {row.verdict} | {row.seeds} |"
        f" {row.top1:.1f} |"
        for row in sorted(rows, key=lambda row: -row.points)
    ]
    return [
        f"### {first.data}, {first.tokens:,} tokens (`{first.setting}/*`)",
        (
            f"{trained[0].upper()}{trained[1:]} of {first.images:,} images, width {first.width}, depth {first.depth}."
            f" Exact attention: {first.exact_top1:.1f} %."
        ),
        "\n".join(lines),
    ]
