"""What the difference of two sets of runs shows: one estimator, and three verdicts against a margin stated beforehand.

A difference is *shown* (its 95 % interval lies beyond zero), *ruled out* (two one-sided tests put it within the margin) or *open*
(neither). "No significant difference" is open.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from scipy.stats import t as student

Says = Literal["above", "below", "not above", "not below", "equal"]
"""What a claim says of a - b: above zero, below it, not above it, not below it, or equal to it."""
Verdict = Literal["shown", "ruled out", "open"]
Method = Literal["paired", "welch", "test images"]
LEVEL = 0.05
Key = TypeVar("Key", bound=Hashable)
"""What makes a run a repetition: its seed, split and fold."""


@dataclass(frozen=True)
class Effect:
    """a - b: the mean, its standard error and degrees of freedom."""

    mean: float
    error: float
    freedom: float
    """Infinite for `test images`."""
    count: int
    """Pairs, or the runs of the side that has fewer."""
    method: Method

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        return float(student.ppf(1 - LEVEL / 2, self.freedom)) * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.half:.2f}" + (" (one seed)" if self.method == "test images" else "")

    def differs(self) -> float:
        """The two-sided p value of no difference."""
        return self._tail(abs(self.mean)) * 2

    def within(self, margin: float) -> float:
        """The p value of two one-sided tests that the difference is as large as the margin."""
        return max(self._tail(margin - self.mean), self._tail(margin + self.mean))

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        return float(student.sf(distance / self.error, self.freedom))


def effect(a: Mapping[Key, float], b: Mapping[Key, float], images: int | None = None) -> Effect | None:
    """a - b, each by its repetitions.

    Paired where every run of the smaller side has its partner on the other, Welch otherwise. A single run on a side tells no more than the
    choice of that many test images, in percentage points; without them there is no estimate.
    """
    shared = sorted(a.keys() & b.keys(), key=repr)
    if len(shared) > 1 and len(shared) == min(len(a), len(b)):
        found = [a[key] - b[key] for key in shared]
        return Effect(statistics.fmean(found), statistics.stdev(found) / math.sqrt(len(found)), len(found) - 1, len(found), "paired")
    count = min(len(a), len(b))
    if count == 0:
        return None
    mean = statistics.fmean(a.values()) - statistics.fmean(b.values())
    if count == 1:
        if images is None:
            return None
        shares = [statistics.fmean(side.values()) / 100 for side in (a, b)]
        return Effect(mean, 100 * math.sqrt(sum(p * (1 - p) for p in shares) / images), math.inf, 1, "test images")
    va, vb = (statistics.variance(side.values()) / len(side) for side in (a, b))
    freedom = math.inf if va + vb == 0 else (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return Effect(mean, math.sqrt(va + vb), freedom, count, "welch")


def averaged(runs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """The mean of each repetition: configurations that ran with the same seeds must not pass for seeds."""
    found: dict[Key, list[float]] = {}
    for key, value in runs:
        found.setdefault(key, []).append(value)
    return {key: statistics.fmean(values) for key, values in found.items()}


def margin(printed: float) -> float:
    """Of a document's own effect, in points: half of it, or 0.5 where it is smaller than 1."""
    return 0.5 if abs(printed) < 1 else abs(printed) / 2


@dataclass(frozen=True)
class Judged:
    verdict: Verdict
    p: float
    """Of the decisive test; after `holm`, adjusted to its family."""
    direction: Literal["above", "below", "within"]
    """What that test says of the difference."""


def judge(effects: Sequence[tuple[Effect | None, Says, float]]) -> list[Judged]:
    """Of a family of claims, each an effect, what is said of it and a margin, with Holm's correction for their number.

    A difference cannot be both zero and beyond the margin, so of the two tests of a claim at most one can err, and the family counts each
    claim once. One seed a side decides nothing.
    """
    decisive = [_decisive(found, limit) for found, _, limit in effects]
    adjusted = holm([p for p, _ in decisive])
    return [
        Judged(_verdict(says, direction) if p <= LEVEL else "open", p, direction)
        for p, (_, direction), (_, says, _) in zip(adjusted, decisive, effects, strict=True)
    ]


def _decisive(found: Effect | None, limit: float) -> tuple[float, Literal["above", "below", "within"]]:
    if found is None or found.method == "test images":
        return 1.0, "within"
    differs, within = found.differs(), found.within(limit)
    return (within, "within") if within < differs else (differs, "above" if found.mean > 0 else "below")


def _verdict(says: Says, direction: Literal["above", "below", "within"]) -> Verdict:
    agrees = {
        "above": ("above",),
        "below": ("below",),
        "not above": ("below", "within"),
        "not below": ("above", "within"),
        "equal": ("within",),
    }
    return "shown" if direction in agrees[says] else "ruled out"


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted so that the chance of any error among them all stays below the level."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, most = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, values[i] * (len(values) - rank)))
        adjusted[i] = most
    return adjusted
