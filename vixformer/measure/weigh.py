"""The decision between accuracy and time, by one preference: the points of accuracy that half the time is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vixformer.measure.bench import Measured
from vixformer.measure.latency import Ratio
from vixformer.measure.nearest import Known
from vixformer.measure.question import Question

WORTH_IT = 1.1
"""How many times as fast a model of equal accuracy must be to be worth giving up exact attention."""
TIE = 1.05
"""Models of equal accuracy whose times differ by less are a tie, however narrow their intervals are."""


@dataclass(frozen=True)
class Option:
    """A model that may be recommended. Exact attention has no ratio, and its points are zero."""

    attention: str
    known: Known | None
    ratio: Ratio | None

    @property
    def points(self) -> float:
        """Points that count for the score: a loss in full, and a gain less one standard error, so that few runs do not
        win by luck."""
        if self.known is None or self.known.points < 0:
            return self.known.points if self.known else 0.0
        return max(0.0, self.known.points - (self.known.high - self.known.points) / 2)

    @property
    def doublings(self) -> float:
        """Base-2 logarithm of its time relative to exact attention."""
        return math.log2(self.ratio.ratio) if self.ratio else 0.0

    @property
    def noise(self) -> float:
        """Half the width of the interval of `doublings`."""
        if self.ratio is None:
            return 0.0
        return math.log2(self.ratio.high / self.ratio.low) / 2 if self.ratio.low > 0 else math.inf

    def score(self, worth: float) -> float:
        return self.points - worth * self.doublings


@dataclass(frozen=True)
class Weighed:
    best: Option
    others: tuple[Option, ...]
    """The others, best first."""
    ties: tuple[Option, ...]
    """Options that these times cannot tell apart from the best."""
    clear: bool
    """Whether these times decide between exact attention and the best other."""
    changes: tuple[tuple[float, Option], ...]
    """Points that half the time must be worth, at most or at least, for another one to win: the nearest on each
    side."""


def weigh(options: Sequence[Option], worth: float) -> Weighed:
    """Choose the best of options, given in the order in which ties are decided, exact attention first.

    Exact attention stays unless another option is clearly better, by more than a small speedup is worth.
    """
    exact = options[0]
    ranked = sorted(options, key=lambda one: -one.score(worth))
    top = ranked[0]
    least, noise = worth * math.log2(WORTH_IT), worth * top.noise
    best = exact
    if top.score(worth) - noise >= least:
        best = max((one for one in options[1:] if _tied(one, top, worth)), key=lambda one: round(one.points, 1))
    clear = top is exact or not -noise < top.score(worth) - least < noise
    ties = tuple(one for one in ranked if one is not best and _tied(one, best, worth) and _tied(one, top, worth))
    return Weighed(best, tuple(one for one in ranked if one is not best), ties, clear, _changes(best, options))


def _tied(one: Option, other: Option, worth: float) -> bool:
    noise = worth * math.hypot(one.noise, other.noise)
    return abs(one.score(worth) - other.score(worth)) <= max(noise, worth * math.log2(TIE))


def _changes(best: Option, options: Sequence[Option]) -> tuple[tuple[float, Option], ...]:
    """A faster one wins above a certain worth of time, a more accurate one below."""
    above: list[tuple[float, Option]] = []
    below: list[tuple[float, Option]] = []
    for one in options:
        saved = best.doublings - one.doublings
        if one is best or abs(saved) < math.log2(TIE):
            continue
        turn = (best.points - one.points) / saved
        if turn > 0:
            (above if saved > 0 else below).append((turn, one))
    found = [min(above, key=lambda change: change[0], default=None), max(below, key=lambda c: c[0], default=None)]
    return tuple(change for change in found if change is not None)


def same_accuracy(one: Option, other: Option) -> bool:
    """Whether the records cannot tell their accuracy apart."""
    halves = [(side.known.high - side.known.low) / 2 if side.known else 0.0 for side in (one, other)]
    return abs(one.points - other.points) <= math.hypot(*halves)


def balance(question: Question, weighed: Weighed, exact: Measured, chosen: Measured) -> str:
    """The reason in one sentence, with accuracy and time."""
    best, worth = weighed.best, f"{question.worth:g} point{'s' * (question.worth != 1)}"
    took = f"{question.asked} takes {exact.time.median:.1f} ms with exact attention"
    if best.known is None or best.ratio is None:
        rival = weighed.others[0] if weighed.others else None
        if rival is None or rival.ratio is None:
            return f"{took}, and the atlas has no accuracy for anything that is faster."
        return (
            f"{took}. The best other, {rival.attention}, takes {rival.ratio} of that, and the expected difference in"
            f" accuracy is {rival.known} points: exact attention is better if half the time is worth {worth}."
        )
    return (
        f"{took} and {chosen.time.median:.1f} ms with {best.attention}, which is {best.ratio} of the time. The"
        f" expected difference in accuracy is {best.known} points."
    )
