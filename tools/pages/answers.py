"""A document's claims, each with its printed effect, ours and the verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tools.pages.blocks import Block, best_for, by_repetition
from tools.pages.tables import MEMORY, TIMES
from tools.runs import Kept
from tools.timings import NAIVE, effect_of
from vixformer.documents.base import Claim, Document, Measure, is_cost
from vixformer.documents.verdicts import Found, paired_rows
from vixformer.results.evidence import Effect, averaged, effect, judge
from vixformer.results.runs import Repetition

FIRST = 0.2
"""The share of the epochs that are "the first epochs": ten of fifty."""


@dataclass(frozen=True)
class Answer:
    found: Found
    told: str
    """From what: which runs, or which timing."""
    decided: bool
    """False where nothing was measured."""


@cache
def answers(document: Document) -> list[Answer]:
    """All claims judged as one family, so that what one says does not depend on which others are looked at."""
    effects = [_effect(claim) for claim in document.claims]
    limits = [math.log1p(document.margin(c)) if is_cost(c.measure) else document.margin(c) for c in document.claims]
    judged = judge([(found, claim.says, limit) for (found, _), claim, limit in zip(effects, document.claims, limits, strict=True)])
    return [
        Answer(
            Found(claim, document.effect(claim), document.agrees(claim), document.margin(claim), found, verdict), told, found is not None
        )
        for claim, (found, told), verdict in zip(document.claims, effects, judged, strict=True)
    ]


def _effect(claim: Claim) -> tuple[Effect | None, str]:
    if claim.measure in ("step", "inference"):
        return _timed(claim)
    if claim.measure == "memory":
        return _memory(claim)
    for block in best_for(*claim.sides()):
        values = {name: found for name, runs in block.runs.items() if (found := _values(runs, claim.measure))}
        one, other = paired_rows(claim, values)
        sides = [averaged((key, value) for name in names for key, value in values[name].items()) for names in (one, other)]
        found = effect(*sides, images=block.budget.tested)
        if found is not None:
            return found, _told(claim, block, len(one) + len(other))
    return None, "not run"


def _told(claim: Claim, block: Block, rows: int) -> str:
    seeds = "1 seed" if block.seeds == 1 else f"{block.seeds} seeds"
    return f"{block.budget}, {seeds}{_some(claim, rows)}{'' if block.today else ', recipes before their last change'}"


def _some(claim: Claim, rows: int) -> str:
    every = sum(map(len, claim.sides()))
    return f", {rows} of {every} rows" if rows < every else ""


def _values(runs: Sequence[Kept], measure: Measure) -> dict[Repetition, float]:
    def of(run: Kept) -> float | None:
        history = run.history
        if measure == "train top-1":
            return history[-1].get("train_top1") if history else None
        if measure == "first epochs":
            early = [record["val_top1"] for record in history[: max(1, round(FIRST * len(history)))] if "val_top1" in record]
            return statistics.fmean(early) if early else None
        return run.summary["test_top1"]

    return by_repetition(runs, of)


def _timed(claim: Claim) -> tuple[Effect | None, str]:
    one, other = paired_rows(claim, TIMES)
    if not one or not other:
        return None, "not timed"
    found = effect_of(TIMES, one, other, claim.measure)
    if found is None:
        return None, "timed, but not in turn or not in batches of one size"
    return found, f"{found.count} calls in turn, batches of {_batches(TIMES, one)}{_some(claim, len(one) + len(other))}"


def _batches(measured: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> str:
    return " or ".join(str(batch) for batch in sorted({measured[name]["batch"] for name in names}))


def _memory(claim: Claim) -> tuple[Effect | None, str]:
    """Exact attention with all of its weights, which is what the documents had."""
    one, other = paired_rows(claim, MEMORY)
    if not one or not other:
        return None, "not measured"
    names = [[name + NAIVE if name + NAIVE in MEMORY else name for name in side] for side in (one, other)]
    if any(MEMORY[a]["batch"] != MEMORY[b]["batch"] for a, b in zip(*names, strict=False)):
        return None, "measured in batches of different sizes"
    a, b = (averaged((i, math.log(mb)) for name in side for i, mb in enumerate(MEMORY[name]["train_mb"])) for side in names)
    told = f"{len(a)} peaks of training steps, batches of {_batches(MEMORY, names[0])}, exact attention without a fused kernel"
    return effect(a, b), told + _some(claim, len(one) + len(other))
