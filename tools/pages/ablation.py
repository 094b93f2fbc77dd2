"""docs/results/ablation.md."""

from __future__ import annotations

from tools.pages.blocks import repetition
from tools.pages.tables import RUNS, Column, count, ours, settings, table
from vixformer.recipes.ablation import DATA, TRAIN
from vixformer.results.evidence import MARGIN, Effect, effect, judge
from vixformer.results.runs import Spread, spread

BASE = "ablation/cifar10/"
PLAIN = f"{BASE}plain"
WEIGHTS, AVERAGED = "test_top1", "ema_test_top1"
VALIDATED = {WEIGHTS: "val_top1", AVERAGED: "ema_val_top1"}
"""What chooses the epoch, and a row."""


def page() -> str:
    names = [BASE + name for name in (*DATA, *TRAIN) if BASE + name in RUNS]
    parts = [
        "# Augmentations, Muon and averaged weights",
        (
            "If you train a small ViT on few images, this page tells you what each augmentation brings. The recipes"
            " `ablation/cifar10/*` differ from `plain`, which shifts and mirrors images, in one of these each. Every"
            " run also has an average of its weights (EMA), which chooses its own epoch on validation. Differences"
            " are to the weights of `plain`, in points, paired by seed and split, with 95 % intervals. Verdicts are"
            f" against a margin of {MARGIN} points, with Holm's correction for all differences of the table."
        ),
    ]
    if PLAIN not in names:
        return "\n\n".join([*parts, f"None of them has run yet. To run them: `vix compare '{BASE}*' --seeds 3`."])
    return "\n\n".join([*parts, settings({name: RUNS[name] for name in names}), *_found(names)])


def _found(names: list[str]) -> list[str]:
    tops = {(name, key): _by_repetition(name, key) for name in names for key in VALIDATED}
    base = tops[PLAIN, WEIGHTS]
    apart = {row: d for row, some in tops.items() if row != (PLAIN, WEIGHTS) and (d := effect(some, base)) is not None}
    verdicts = dict(zip(apart, judge([(d, "different", MARGIN) for d in apart.values()]), strict=True))
    columns: list[Column] = [("seeds", count)]
    for key, what in ((WEIGHTS, ""), (AVERAGED, "EMA, ")):
        columns += [
            (f"{what}validation", lambda name, key=key: _validation(name, key)),
            (f"{what}test", ours(key)),
            (f"{what}minus plain", lambda name, key=key: str(apart.get((name, key)) or "")),
            (f"{what}verdict", lambda name, key=key: verdicts[name, key].verdict if (name, key) in verdicts else ""),
        ]
    picked = max(tops, key=lambda row: _mean(*row))
    return [table(names, columns), _told(picked, apart, verdicts[picked].verdict if picked in verdicts else "")]


def _told(picked: tuple[str, str], apart: dict[tuple[str, str], Effect], verdict: str) -> str:
    name, key = picked
    how = " with averaged weights" if key == AVERAGED else ""
    said = f"Validation picks `{name}`{how}: {_validation(name, key)} % of the validation images,"
    said += f" {ours(key)(name)} % of the test images"
    if picked in apart:
        return f"{said}. The difference to the weights of `plain` is {apart[picked]} points ({verdict})."
    return f"{said}." if picked != (PLAIN, WEIGHTS) else f"{said}. Nothing in the table is better on validation."


def _by_repetition(name: str, key: str) -> dict[tuple[int, int, int], float]:
    return {repetition(run): run.summary[key] for run in RUNS[name] if run.summary.get(key) is not None}


def _validations(name: str, key: str) -> Spread | None:
    """At the epoch that it chose."""
    chosen = "best_epoch" if key == WEIGHTS else "ema_best_epoch"
    found = [run.history[run.summary[chosen] - 1].get(VALIDATED[key]) for run in RUNS[name]]
    values = [value for value in found if value is not None]
    return spread(values) if values else None


def _validation(name: str, key: str) -> str:
    found = _validations(name, key)
    return "" if found is None else str(found)


def _mean(name: str, key: str) -> float:
    found = _validations(name, key)
    return -1.0 if found is None else found.mean
