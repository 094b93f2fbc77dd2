"""Comparisons in which every row had the same number of learning-rate trials."""

from __future__ import annotations

from collections.abc import Sequence

from tools.pages.blocks import Repetition, repetition
from tools.pages.tables import EVERY, TRIALS
from vixformer.results.evidence import MARGIN, effect, judge
from vixformer.results.runs import spread

HEAD = (
    "recipe",
    "rates tried",
    "chosen",
    "top-1 %",
    "minus exact",
    "verdict",
    "top-1 % at its own rate",
    "minus exact at own rates",
)

PROTOCOL = (
    "Every row had the same number of learning-rate trials, a factor of 3 apart, with a seed and a split of their own;"
    " the best validation accuracy chose. Then fresh seeds, which vary the start, the split and the order of images."
    f" Differences have paired 95 % intervals; verdicts are against a margin of {MARGIN} points, with Holm's correction"
    " for the rows of the table."
)


class Row:
    """What the lab made of a recipe: trials, and runs at the rate that they chose and at the recipe's own."""

    def __init__(self, name: str) -> None:
        trials = TRIALS[name]
        tried = {trial.recipe["train"]["lr"]: trial.summary["val_top1"] for trial in trials}
        self.rates = sorted(tried)
        self.chosen = max(tried, key=tried.__getitem__)
        found: dict[float, dict[Repetition, float]] = {rate: {} for rate in tried}
        for run in EVERY.get(name, []):
            rate = run.recipe["train"]["lr"]
            if run.recipe["train"]["track_test"] and run.budget == trials[0].budget and rate in found:
                found[rate][repetition(run)] = run.summary["test_top1"]
        self.tuned, self.own = found[self.chosen], found[self.rates[len(self.rates) // 2]]


def table(names: Sequence[str], base: str) -> str:
    """Rows that have trials and runs, compared with `base`; empty where there are none."""
    rows = {name: row for name in names if name in TRIALS and (row := Row(name)).tuned}
    if base not in rows:
        return ""
    others = [name for name in rows if name != base]
    apart = {name: effect(rows[name].tuned, rows[base].tuned) for name in others}
    at_own = {name: effect(rows[name].own, rows[base].own) for name in others if rows[name].own and rows[base].own}
    verdicts = {
        name: j.verdict
        for name, j in zip(others, judge([(apart[n], "different", MARGIN) for n in others]), strict=True)
    }
    lines = ["| " + " | ".join(HEAD) + " |", "|---" + "|--:" * (len(HEAD) - 1) + "|"]
    for name, row in rows.items():
        cells = [
            f"`{name}`",
            ", ".join(f"{rate:g}" for rate in row.rates),
            f"{row.chosen:g}",
            str(spread(row.tuned.values())),
        ]
        cells += [str(apart.get(name) or ""), verdicts.get(name, "")]
        cells += [str(spread(row.own.values())) if row.own else "", str(at_own.get(name) or "")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
