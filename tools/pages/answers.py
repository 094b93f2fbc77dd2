"""A document's claims, each with its printed effect, ours and the verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tools.pages.blocks import Block, Repetition, comparable, repetition
from tools.pages.tables import MEMORY, TIMES
from tools.runs import CUT, Kept, changed
from tools.timings import NAIVE, effect_of
from vixformer.documents.claims import Claim, Document, Measure
from vixformer.documents.verdicts import Found, claim_effect, counted_rows, decidable, judge_claims, paired_rows
from vixformer.results.evidence import Effect, averaged, effect

MOST_CHANGES = 3
FIRST = 0.2
"""The share of the epochs that are "the first epochs": ten of fifty."""


@dataclass(frozen=True)
class Answer:
    found: Found
    told: str
    """From what: which runs, or which timing."""
    decided: bool
    """False where nothing was measured."""
    block: Block | None = None
    """The runs, of a claim about accuracy."""
    rows: tuple[str, ...] = ()
    """Recipes that were compared, of both sides."""


@dataclass(frozen=True)
class _Measured:
    effect: Effect | None
    told: str
    block: Block | None = None
    rows: tuple[str, ...] = ()


@cache
def answers(document: Document) -> list[Answer]:
    """All claims judged as one family, so that what one says does not depend on which others are looked at."""
    measured = [_measured(claim) for claim in document.claims]
    found = judge_claims(
        document, [(claim, some.effect) for claim, some in zip(document.claims, measured, strict=True)]
    )
    return [Answer(one, m.told, m.effect is not None, m.block, m.rows) for one, m in zip(found, measured, strict=True)]


def _measured(claim: Claim) -> _Measured:
    if claim.measure in ("step", "inference"):
        return _Measured(*_timed(claim))
    if claim.measure == "memory":
        return _Measured(*_memory(claim))
    one, other = claim.sides()
    made = [_of_block(claim, block) for block in comparable([*one, *other], with_parents=claim.epochs == "all")]
    return max((some for some in made if some.effect is not None), key=_rank, default=_Measured(None, "not run"))


def _rank(measured: _Measured) -> tuple[bool, bool, int, int]:
    """Whether it has an interval over seeds, then whether its recipes are those of today, then what it cost: never what
    it says."""
    assert measured.block is not None
    budget = measured.block.budget
    return decidable(measured.effect), measured.block.today, budget.epochs * budget.images, len(measured.rows)


def _of_block(claim: Claim, block: Block) -> _Measured:
    values = {name: found for name, runs in block.runs.items() if (found := _values(runs, claim.measure))}
    one, other = counted_rows(claim, values)
    rows = (*one, *other)
    if not one or not other:
        return _Measured(None, "not run")
    counted = Block(
        block.budget,
        all(not run.differs for name in rows for run in block.runs[name]),
        {name: block.runs[name] for name in rows},
    )
    found = claim_effect(claim, {claim.measure: values}, dict.fromkeys(rows, block.budget.tested))
    return _Measured(found, _told(claim, counted, len(rows)), counted, rows)


def _told(claim: Claim, block: Block, rows: int) -> str:
    seeds = "1 seed" if block.seeds == 1 else f"{block.seeds} seeds"
    return f"{block.budget}, {seeds}{_some(claim, rows)}{_changes(block)}"


def _changes(block: Block) -> str:
    """What is not as the recipes say; where that is much, they have changed since."""
    found = {f"{field} {was}": None for name, runs in block.runs.items() for field, was in _of_today(name, runs)}
    if len(found) > MOST_CHANGES:
        return ", recipes before their last change"
    return f", with {', '.join(f'`{change}`' for change in found)}" if found else ""


def _of_today(name: str, runs: Sequence[Kept]) -> list[tuple[str, object]]:
    return [(field, was) for run in runs for field, (was, _) in changed(run.recipe, name).items() if field not in CUT]


def _some(claim: Claim, rows: int) -> str:
    every = sum(map(len, claim.sides()))
    return f", {rows} of {every} rows" if rows < every else ""


def _values(runs: Sequence[Kept], measure: Measure) -> dict[Repetition, float]:
    def of(run: Kept) -> float | None:
        history = run.history
        if measure == "train top-1":
            return history[-1].get("train_top1") if history else None
        if measure == "first epochs":
            early = [
                record["val_top1"] for record in history[: max(1, round(FIRST * len(history)))] if "val_top1" in record
            ]
            return statistics.fmean(early) if early else None
        return run.summary["test_top1"]

    return {repetition(run): value for run in runs if (value := of(run)) is not None}


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
    sides = [
        averaged((i, math.log(mb)) for name in side for i, mb in enumerate(MEMORY[name]["train_mb"])) for side in names
    ]
    told = (
        f"{len(sides[0])} peaks of training steps, batches of {_batches(MEMORY, names[0])}, exact attention without a"
        " fused kernel"
    )
    return effect(sides[0], sides[1]), told + _some(claim, len(one) + len(other))
