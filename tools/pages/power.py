"""What it would take to decide the claims that are open: more seeds at the budget that is there, and their hours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tools.pages.answers import Answer
from tools.pages.tables import EVERY
from tools.runs import Kept
from vixformer.documents.claims import Claim, is_cost
from vixformer.documents.verdicts import decidable
from vixformer.results.evidence import LEVEL, Effect
from vixformer.results.groups import counted
from vixformer.results.power import seeds_needed

FIRST_SEEDS = 3
"""Of a claim that nothing was run for, or one seed."""
MOST_SEEDS = 100


@dataclass(frozen=True)
class Cost:
    hours: float | None
    """None where no run tells how long one takes, or so many seeds would not decide it."""
    told: str


def costs_to_decide(found: Sequence[Answer]) -> list[Cost | None]:
    """Of one document's claims; None of those that are decided, and of times and memory, which are measured in
    minutes."""
    left = [answer for answer in found if answer.found.judged.verdict == "open" and decidable(answer.found.effect)]
    return [
        None if answer.found.judged.verdict != "open" else _cost(answer, found, max(1, len(left))) for answer in found
    ]


def _cost(answer: Answer, every: Sequence[Answer], family: int) -> Cost | None:
    claim, effect = answer.found.claim, answer.found.effect
    if is_cost(claim.measure):
        return Cost(None, "minutes, on a quiet machine")
    seconds = _seconds(answer, every)
    if effect is None or not decidable(effect):
        return Cost(None if seconds is None else FIRST_SEEDS * seconds / 3600, f"{FIRST_SEEDS} seeds")
    needed = seeds_to_decide(effect, answer.found.margin, LEVEL / family)
    if needed > MOST_SEEDS:
        return Cost(None, f"over {MOST_SEEDS} seeds: more epochs first")
    more = max(1, needed - effect.count)
    return Cost(None if seconds is None else more * seconds / 3600, f"{counted(more, 'more seed')}")


def seeds_to_decide(found: Effect, margin: float, level: float) -> int:
    """Seeds of each side, so that a difference as large as the one found is shown, or ruled out where it is within the
    margin."""
    paired = found.method == "paired"
    sd, size = found.error * math.sqrt(found.count / (1 if paired else 2)), abs(found.mean)
    asked = [{"effect": size}] if size else []
    asked += [{"margin": margin - size}] if size < margin else []
    return min(seeds_needed(sd, **one, paired=paired, level=level) for one in asked)


def _seconds(answer: Answer, every: Sequence[Answer]) -> float | None:
    """Of one seed of all rows of a claim: of its own runs, or by images of those of its document's usual budget, which
    is the largest."""
    if answer.block is not None:
        return sum(_mean(runs) for runs in answer.block.runs.values())
    blocks = [other.block for other in every if other.block is not None]
    if not blocks:
        return None
    budget = max((block.budget for block in blocks), key=lambda b: b.epochs * b.images)
    rates = [_rate(name) for name in _rows(answer.found.claim)]
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    return budget.epochs * budget.images * sum(statistics.fmean(known) if rate is None else rate for rate in rates)


def _rows(claim: Claim) -> list[str]:
    return [name for side in claim.sides() for name in side]


def _rate(name: str) -> float | None:
    """Seconds an image, of all runs of this recipe, or of its folder."""
    folder = name.rpartition("/")[0]
    runs = EVERY.get(name) or [
        run for other, some in EVERY.items() if other.rpartition("/")[0] == folder for run in some
    ]
    return (
        statistics.median(
            run.summary["train_seconds"] / (run.summary["epochs"] * run.summary["train_images"]) for run in runs
        )
        if runs
        else None
    )


def _mean(runs: Sequence[Kept]) -> float:
    return statistics.fmean(run.summary["train_seconds"] for run in runs)
