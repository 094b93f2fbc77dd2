"""docs/results/convert.md."""

from __future__ import annotations

from tools.pages.tables import REPORTED, RUNS, bullet, have, settings, tops
from vixformer.recipes.conversions import ATTENTIONS
from vixformer.results.evidence import Effect, Says, effect, judge
from vixformer.results.runs import spread

NEAREST = {"linformer": "linformer", "performer-softmax-64": "performer-softmax-16"}
"""Ours, and the nearest row of "Testing linear-attention Transformers"."""
ENDS = {
    "-from-scratch": "as long as conversion takes",
    "-from-scratch-long": "as long as conversion and the parent take",
}


def page() -> str:
    parts = [
        "# From exact attention to another",
        (
            "For each seed, one model was trained with exact attention and then converted (`vix convert`, the recipes"
            " `convert/*`). The tables have its accuracy right after conversion, after distillation from the old layers"
            " (200 steps, no labels), and after one epoch of fine-tuning. Next to it stands the same mechanism trained"
            " from scratch: for two epochs, as long as distillation and fine-tuning take if the parent exists, and for"
            " six, with the parent's four."
        ),
        (
            'The last columns are what "Testing linear-attention Transformers" reports of its own networks, on'
            " validation: Linformer, and a Performer with 16 features. Differences have 95 % intervals over pairs of"
            " seeds. Verdicts are *shown*, *ruled out* or *open*, against a margin of 0.5 points where none is named,"
            " with Holm's correction for the attentions of a line."
        ),
    ]
    for data in ("mnist", "cifar10"):
        base = f"convert/{data}/"
        names = [base + name for name in ("exact", *ATTENTIONS)]
        parts += [f"## {data}", settings({name: RUNS[name] for name in names if name in RUNS})]
        if have(names):
            parts += [_table(data), _answers(data)]
    return "\n\n".join(parts)


def stage(name: str, which: str, key: str = "test_top1") -> dict[int, float]:
    """By seed."""
    return {
        run.summary["seed"]: s[key]
        for run in RUNS.get(name, [])
        for s in run.summary["conversion"]["stages"]
        if s["stage"] == which
    }


def _tops(name: str) -> dict[int, float]:
    return {run.summary["seed"]: run.summary["test_top1"] for run in RUNS.get(name, [])}


def _table(data: str) -> str:
    base = f"convert/{data}/"
    titles = ("attention", "converted", "distilled", "fine-tuned", "scratch, 2 epochs", "scratch, 6", "distillation s",
              "an epoch s",
              "reported from checkpoint", "reported from scratch")  # fmt: skip
    exact = tops([base + "exact"])
    lines = ["| " + " | ".join(titles) + " |", "|---" + "|--:" * (len(titles) - 1) + "|"]
    lines.append(f"| exact, the parent | {spread(exact)} |" + " |" * (len(titles) - 2))
    for name in ATTENTIONS:
        row = base + name
        scratch, long = (tops([row + end]) for end in ENDS)
        theirs = NEAREST.get(name)
        linear = f"linear-tests/{data}/{theirs}"
        cells = [
            f"`{name}`",
            str(spread(stage(row, "converted").values())),
            str(spread(stage(row, "distilled").values())),
            str(spread(tops([row]))),
            *(str(spread(found)) if found else "not run" for found in (scratch, long)),
            f"{spread(stage(row, 'distilled', 'seconds').values()).mean:.0f}",
            f"{spread([run.summary['seconds_an_epoch'] for run in RUNS[row]]).mean:.0f}",
            REPORTED.get(linear + "-from-checkpoint", {}).get("val_top1", "") if theirs else "",
            REPORTED.get(linear, {}).get("val_top1", "") if theirs else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _answers(data: str) -> str:
    """Paired by seed, because a converted model and one from scratch share start, split and order."""
    base = f"convert/{data}/"
    to_parent = _all({name: effect(_tops(base + name), _tops(base + "exact")) for name in ATTENTIONS})
    answers = [
        bullet(
            "**At most a point below the parent after distillation and one epoch:**", _each(to_parent, "not below", 1.0)
        )
    ]
    for end, what in ENDS.items():
        against = _all(
            {n: effect(_tops(base + n), _tops(base + n + end)) for n in ATTENTIONS if have([base + n + end])}
        )
        if against:
            answers.append(bullet(f"**Conversion is better than from scratch, {what}:**", _each(against, "above", 0.5)))
    distilled = _all(
        {name: effect(stage(base + name, "distilled"), stage(base + name, "converted")) for name in ATTENTIONS}
    )
    answers.append(bullet("**Distillation helps, before any label is seen:**", _each(distilled, "above", 0.5)))
    return "\n".join(answers)


def _all(found: dict[str, Effect | None]) -> dict[str, Effect]:
    return {name: one for name, one in found.items() if one is not None}


def _each(found: dict[str, Effect], says: Says, margin: float) -> str:
    """Judged as one family, against a margin in points."""
    judged = judge([(effect, says, margin) for effect in found.values()])
    return (
        "; ".join(f"`{name}` {d} ({verdict.verdict})" for (name, d), verdict in zip(found.items(), judged, strict=True))
        + "."
    )
