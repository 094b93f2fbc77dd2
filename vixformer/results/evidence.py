"""What the difference of two sets of runs shows: one estimator, and three verdicts against a margin stated beforehand.

A difference is *shown* (its 95 % interval lies beyond zero), *ruled out* (two one-sided tests put it within the margin)
or *open* (neither). "No significant difference" is open.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Says = Literal["above", "below", "not above", "not below", "equal", "different"]
"""What a claim says of a - b: above zero, below it, not above it, not below it, equal to it, or not equal to it."""
Verdict = Literal["shown", "ruled out", "open"]
Method = Literal["paired", "welch", "test images", "paired images"]
METHODS: dict[Method, str] = {
    "paired": "paired by seed and split",
    "welch": "Welch",
    "test images": "one seed, so it covers the choice of test images alone",
    "paired images": "paired by test image",
}
"""In words, for the note of a table."""
LEVEL = 0.05
MARGIN = 0.5
"""Points that a difference must reach to matter, unless a margin is given."""
Key = TypeVar("Key", bound=Hashable)
"""What makes a run a repetition: its seed, split and fold."""


@dataclass(frozen=True)
class Effect:
    """a - b: the mean, its standard error and degrees of freedom."""

    mean: float
    error: float
    freedom: float
    """Infinite for `test images` and `paired images`."""
    count: int
    """Pairs, or the runs of the side that has fewer."""
    method: Method

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        from scipy.special import stdtrit  # here, because it takes a while to load; scipy.stats takes twice as long

        return float(stdtrit(self.freedom, 1 - LEVEL / 2)) * self.error

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.half:.2f}" + (" (one seed)" if self.method == "test images" else "")

    def differs(self) -> float:
        """The two-sided p value of no difference."""
        return min(1.0, self._tail(abs(self.mean)) * 2)

    def within(self, margin: float) -> float:
        """The p value of two one-sided tests that the difference is as large as the margin."""
        return max(self._tail(margin - self.mean), self._tail(margin + self.mean))

    def _tail(self, distance: float) -> float:
        if self.error == 0:
            return 0.0 if distance > 0 else 1.0
        from scipy.special import stdtr

        return float(stdtr(self.freedom, -distance / self.error))


def effect(a: Mapping[Key, float], b: Mapping[Key, float], images: int | None = None) -> Effect | None:
    """a - b, each by its repetitions.

    Paired where every run of the smaller side has its partner on the other, Welch otherwise. A single run on a side
    tells no more than the choice of that many test images, in percentage points; without them there is no estimate.
    """
    shared = sorted(a.keys() & b.keys(), key=repr)
    if len(shared) > 1 and len(shared) == min(len(a), len(b)):
        found = [a[key] - b[key] for key in shared]
        return Effect(
            statistics.fmean(found),
            statistics.stdev(found) / math.sqrt(len(found)),
            len(found) - 1,
            len(found),
            "paired",
        )
    if min(len(a), len(b)) != 1:
        return welch(list(a.values()), list(b.values()))
    if images is None:
        return None
    means = [statistics.fmean(side.values()) for side in (a, b)]
    error = math.sqrt(sum(mean * (100 - mean) for mean in means) / images)
    return Effect(means[0] - means[1], error, math.inf, 1, "test images")


def welch(a: Sequence[float], b: Sequence[float]) -> Effect | None:
    """a - b where nothing pairs them; None where a side has fewer than two."""
    count = min(len(a), len(b))
    if count < 2:
        return None
    mean = statistics.fmean(a) - statistics.fmean(b)
    va, vb = (statistics.variance(side) / len(side) for side in (a, b))
    if va + vb == 0:
        return Effect(mean, 0.0, math.inf, count, "welch")
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    if count == 2 < max(len(a), len(b)):  # the usual formula would cover 90 % where the two runs are those that scatter
        freedom = 1.0
    return Effect(mean, math.sqrt(va + vb), freedom, count, "welch")


def on_images(a: Sequence[bool], b: Sequence[bool]) -> Effect:
    """a - b in points, of two trained models by the test images that each classifies correctly. It is about these two
    models, not about others trained with other seeds."""
    found = [100.0 * (one - other) for one, other in zip(a, b, strict=True)]
    return Effect(
        statistics.fmean(found), statistics.pstdev(found) / math.sqrt(len(found)), math.inf, len(found), "paired images"
    )


def averaged(runs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """The mean of each repetition: configurations that ran with the same seeds must not pass for seeds."""
    found: dict[Key, list[float]] = {}
    for key, value in runs:
        found.setdefault(key, []).append(value)
    return {key: statistics.fmean(values) for key, values in found.items()}


def margin(printed: float) -> float:
    """Of a document's own effect, in points: half of it, or `MARGIN` where it is smaller than 1."""
    return MARGIN if abs(printed) < 1 else abs(printed) / 2


@dataclass(frozen=True)
class Judged:
    verdict: Verdict
    p: float
    """Of the decisive test; after `holm`, adjusted to its family."""
    direction: Literal["above", "below", "within"]
    """What that test says of the difference."""


def judge(effects: Sequence[tuple[Effect | None, Says, float]]) -> list[Judged]:
    """Of a family of claims, each an effect, what is said of it and a margin, with Holm's correction for their number.

    A difference cannot be both zero and beyond the margin, so of the two tests of a claim at most one can err, and the
    family counts each claim once. Of two decisions that both hold, a difference beyond zero and one within the margin,
    the one with the smaller p value is given. One seed a side decides nothing.
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
        "different": ("above", "below"),
    }
    return "shown" if direction in agrees[says] else "ruled out"


def explained(margin: float, effects: Iterable[Effect]) -> str:
    """What a table with verdicts says under it: the margin, the methods used, and the size of the family."""
    effects = list(effects)
    family = f", and together as a family of {len(effects)} (Holm)" if len(effects) > 1 else ""
    return (
        f"{methods(effects)} Verdicts are against a margin of {margin:g} points{family}: a difference is shown (beyond"
        " zero), ruled out (smaller than the margin) or open (neither)."
    )


def methods(effects: Sequence[Effect]) -> str:
    """How the intervals of a table were made, with the number of each kind where there are several."""
    counts = {METHODS[method]: n for method in METHODS if (n := sum(found.method == method for found in effects))}
    told = [method if len(counts) == 1 else f"{method} ({n})" for method, n in counts.items()]
    return f"Intervals of 95 %: {', '.join(told)}."


def sentence(one: str, other: str, found: Effect, judged: Judged, margin: float) -> str:
    """A verdict of `different`, without its full stop."""
    size = f"{found.mean:+.2f} ± {found.half:.2f} points"
    if judged.verdict == "shown":
        told = f"Shown: {one} {'beats' if judged.direction == 'above' else 'loses to'} {other} by {size.lstrip('+-')}"
    elif judged.verdict == "ruled out":
        told = f"Ruled out: that {one} differs from {other} by {margin:g} points or more: {size}"
    else:
        told = f"Open: whether {one} differs from {other}: {size}"
    if found.method == "test images":
        return f"{told}, one seed"
    return (
        f"{told} over {found.count:,} {'test images' if found.method == 'paired images' else 'seeds'},"
        f" {METHODS[found.method]}"
    )


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted so that the chance of any error among them all stays below the level."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, most = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        most = max(most, min(1.0, values[i] * (len(values) - rank)))
        adjusted[i] = most
    return adjusted
