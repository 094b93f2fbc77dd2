"""docs/results/convert.md."""

from __future__ import annotations

from tools.pages.tables import REPORTED, RUNS, bullet, have, settings, tops
from vixformer.recipes.convert import ATTENTIONS
from vixformer.results.evidence import Effect, effect
from vixformer.results.runs import spread

NEAREST = {"linformer": "linformer", "performer-softmax-64": "performer-softmax-16"}
"""Ours, and the nearest row of "Testing linear-attention Transformers"."""
ENDS = {"-from-scratch": "as long as conversion takes", "-from-scratch-long": "as long as conversion and the parent take"}


def page() -> str:
    parts = [
        "# From exact attention to another",
        "One trained exact model a seed, converted (`vix convert`, the recipes `convert/*`): right after conversion, after teaching its "
        "layers what the old ones do (200 steps, no labels), after one epoch of fine-tuning; and the same mechanism from scratch for two "
        "epochs, which is what teaching and fine-tuning take where the parent is there, and for six, with the parent's four. The last "
        'columns are what "Testing linear-attention '
        'Transformers" reports of its own networks, on validation: Linformer, and a Performer with 16 features.',
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
    return {run.summary["seed"]: s[key] for run in RUNS.get(name, []) for s in run.summary["conversion"]["stages"] if s["stage"] == which}


def _tops(name: str) -> dict[int, float]:
    return {run.summary["seed"]: run.summary["test_top1"] for run in RUNS.get(name, [])}


def _table(data: str) -> str:
    base = f"convert/{data}/"
    titles = ("attention", "converted", "taught", "fine-tuned", "scratch, 2 epochs", "scratch, 6", "teaching s", "an epoch s",
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
    near = [name for name, d in to_parent.items() if d.mean >= -1]
    best = max(to_parent, key=lambda name: to_parent[name].mean)
    answers = [
        bullet(
            "**Within a point of the parent after teaching and one epoch:**",
            (", ".join(f"`{n}` {to_parent[n]}" for n in near) or f"none; the best is `{best}`, {to_parent[best]}") + ".",
        )
    ]
    for end, what in ENDS.items():
        against = _all({n: effect(_tops(base + n), _tops(base + n + end)) for n in ATTENTIONS if have([base + n + end])})
        if against:
            each = "; ".join(f"`{name}` {d}{_shown(d)}" for name, d in against.items())
            answers.append(bullet(f"**Conversion minus from scratch, {what}:**", each + "."))
    taught = _all({name: effect(stage(base + name, "distilled"), stage(base + name, "converted")) for name in ATTENTIONS})
    answers.append(bullet("**What teaching gives, before any label is seen:**", "; ".join(f"`{n}` {d}" for n, d in taught.items()) + "."))
    return "\n".join(answers)


def _all(found: dict[str, Effect | None]) -> dict[str, Effect]:
    return {name: one for name, one in found.items() if one is not None}


def _shown(found: Effect) -> str:
    return " (shown)" if abs(found.mean) > found.half else " (open)"
