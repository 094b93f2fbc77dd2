"""The decision within a budget of time or memory: exact attention if it keeps to it, or else as few other layers as
possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vixformer.measure.bench import Measured
from vixformer.measure.question import Question
from vixformer.measure.weigh import WORTH_IT

TIE = 1.02
"""Models whose times differ by less are a tie, however narrow their intervals are."""


@dataclass(frozen=True)
class Within:
    best: Measured
    models: tuple[Measured, ...]
    reason: str
    ties: tuple[str, ...]


def within_limits(
    question: Question, models: Sequence[Measured], order: Sequence[str], timed: Callable[[str], Measured]
) -> Within:
    """Of models, exact attention first. A tie goes to what comes first in `order`; `timed` times another layout."""
    models = [models[0], *sorted(models[1:], key=lambda m: m.time.min)]
    exact, others = models[0], models[1:]
    if question.memory is not None and exact.peak is None:
        raise ValueError(f"--memory cannot be measured on {question.device} here: leave it out")
    keeping = [m for m in others if keeps(question, m)]
    fastest = next(iter(keeping), min(others, key=lambda m: _excess(question, m), default=exact))
    equals = [m for m in keeping if _tied(m, fastest) and _worth(m) == _worth(fastest)]
    best = min(equals, key=lambda m: order.index(m.attention), default=fastest)
    ties = tuple(m.attention for m in equals if m is not best)
    if keeps(question, exact) or (not keeping and not _worth(best)):
        return Within(exact, tuple(models), _reason(question, exact, fastest), ())
    if keeping and (count := _fewest(question, exact, best)) < question.depth:
        models.append(timed(f"first({best.attention}, n={count})"))
        best, ties = (models[-1], ()) if keeps(question, models[-1]) else (best, ties)
    return Within(best, tuple(models), _reason(question, exact, best), ties)


def keeps(question: Question, model: Measured) -> bool:
    """Whether a model keeps to what was given, if anything was."""
    return _excess(question, model) <= 1


def _excess(question: Question, model: Measured) -> float:
    """How many times what was given it takes, of time or memory, whichever is more."""
    time = 0.0 if question.budget_ms is None else model.time.median / question.budget_ms
    return max(time, 0.0 if question.memory is None else (model.peak or 0) / question.memory / 2**20)


def _fewest(question: Question, exact: Measured, fastest: Measured) -> int:
    """Layers to convert until the budget is kept, if each wins as much as the others; by memory the same."""
    shares = [0.0]
    if question.budget_ms is not None:
        shares.append((exact.time.median - question.budget_ms) / max(exact.time.median - fastest.time.median, 1e-9))
    if question.memory is not None and exact.peak is not None and fastest.peak is not None:
        shares.append((exact.peak - question.memory * 2**20) / max(exact.peak - fastest.peak, 1))
    return min(question.depth, max(1, math.ceil(question.depth * max(shares))))


def _worth(model: Measured) -> bool:
    """Whether it is clearly faster than exact attention, and by enough."""
    return model.ratio is not None and model.ratio.high < 1 and model.ratio.ratio * WORTH_IT <= 1


def _tied(a: Measured, b: Measured) -> bool:
    """Whether their times cannot be told apart, or are as good as equal."""
    assert a.ratio is not None and b.ratio is not None
    overlap = a.ratio.low <= b.ratio.high and b.ratio.low <= a.ratio.high
    return overlap or max(a.ratio.ratio, b.ratio.ratio) < TIE * min(a.ratio.ratio, b.ratio.ratio)


def _reason(question: Question, exact: Measured, chosen: Measured) -> str:
    # a budget is for the usual call, a comparison for the machine at its quietest
    took_ms, other_ms = (m.time.min if question.budget_ms is None else m.time.median for m in (exact, chosen))
    took = f"{question.asked} takes {took_ms:.1f} ms with exact attention"
    if question.memory is not None and exact.peak is not None:
        took += f" and {exact.peak / 2**20:.0f} MiB at its peak"
    if keeps(question, exact):
        return f"{took}, which stays within the given limits: there is no reason to give it up."
    if chosen.attention == exact.attention:
        return f"{took}, and no other attention is faster here."
    assert chosen.ratio is not None
    times = f"{1 / chosen.ratio.ratio:.2f} times as fast ({1 / chosen.ratio.high:.2f} to {1 / chosen.ratio.low:.2f})"
    other = f"{other_ms:.1f} ms with {chosen.attention}"
    if question.memory is not None and chosen.peak is not None:
        other += f" and {chosen.peak / 2**20:.0f} MiB"
    if keeps(question, chosen):
        return f"{took} and {other}, which stays within the given limits: {times}."
    end = "; nothing measured stays within the given limits"
    if chosen.ratio.verdict == "undecided":
        return f"{took} and {other}: these cannot be told apart, so exact attention stays{end}."
    if chosen.ratio.verdict == "slower":
        return f"{took}, and no other attention is faster here{end}."
    if not _worth(chosen):
        return f"{took} and {other}: {times} is not worth another attention{end}."
    return f"{took} and {other}: {times}{end}."
