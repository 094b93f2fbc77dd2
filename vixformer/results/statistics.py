"""The verdicts of `tools.pages`, until they are made by `evidence`: nothing else uses this."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.stats import t as student


@dataclass(frozen=True)
class Difference:
    """a - b in points, with the half width of its 95 % interval; None where there is none."""

    mean: float
    half: float | None
    over_seeds: bool = True
    """False: of the choice of test images alone, the least there is."""

    def __str__(self) -> str:
        if self.half is None:
            return f"{self.mean:+.2f} (one seed)"
        return f"{self.mean:+.2f} ± {self.half:.2f}" + ("" if self.over_seeds else " (one seed)")

    @property
    def plain(self) -> str:
        return f"{self.mean:+.2f}" + ("" if self.half is None else f" ± {self.half:.2f}")

    @property
    def sign(self) -> int:
        """0 within noise."""
        return 0 if self.half is None or abs(self.mean) <= self.half else 1 if self.mean > 0 else -1

    @property
    def verdict(self) -> str:
        if self.half is None:
            return "one seed, no interval"
        return ("within noise", "holds" if self.over_seeds else "one seed says so", "the reverse")[self.sign]

    @property
    def about(self) -> str:
        """Where neither sign is a claim."""
        return self.verdict if self.sign == 0 else "more than noise"


def difference(a: Sequence[float], b: Sequence[float], images: int | None = None) -> Difference:
    """Welch's interval for two sets of runs, in per cent; with one run on a side, that of proportions of so many test images."""
    mean = statistics.fmean(a) - statistics.fmean(b)
    if min(len(a), len(b)) < 2:
        if images is None:
            return Difference(mean, None)
        shares = [statistics.fmean(side) / 100 for side in (a, b)]
        return Difference(mean, 196 * math.sqrt(sum(p * (1 - p) for p in shares) / images), over_seeds=False)
    va, vb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    if va + vb == 0:
        return Difference(mean, 0.0)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return Difference(mean, float(student.ppf(0.975, freedom)) * math.sqrt(va + vb))


def paired(a: Mapping[int, float], b: Mapping[int, float]) -> Difference:
    """Student's interval for runs on the same seeds, hence the same splits, by seed; what only one side has is left out."""
    found = [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]
    if len(found) < 2:
        return Difference(statistics.fmean(found) if found else math.nan, None)
    half = float(student.ppf(0.975, len(found) - 1)) * statistics.stdev(found) / math.sqrt(len(found))
    return Difference(statistics.fmean(found), half)


SMALL = 2.0
"""Points: only an interval at most so wide either way can show that there is no difference."""


def by_seed(values: Iterable[tuple[int, float]]) -> dict[int, float]:
    """The mean of each seed: configurations that ran with the same seeds are averaged first, so that they do not pass for seeds."""
    found: dict[int, list[float]] = {}
    for seed, value in values:
        found.setdefault(seed, []).append(value)
    return {seed: statistics.fmean(some) for seed, some in sorted(found.items())}


def a_seed(values: Iterable[tuple[int, float]]) -> list[float]:
    return list(by_seed(values).values())


Says = Literal["above", "not above", "not below", "equal"]


@dataclass(frozen=True)
class Claim:
    """What a document says of a - b: `above` zero, `not above`, `not below`, or `equal` to it."""

    text: str
    found: Difference
    says: Says = "above"

    @property
    def verdict(self) -> str:
        mean, half, sign = self.found.mean, self.found.half, self.found.sign
        if half is None:
            if self.says == "equal":
                return "one seed cannot tell"
            return "one seed says so" if (mean > 0) == (self.says in ("above", "not below")) else "one seed says otherwise"
        against = {"above": (-1,), "not above": (1,), "not below": (-1,), "equal": (1, -1)}[self.says]
        if sign == 0:
            if self.says == "above":
                return "is within noise"
            if half > SMALL:
                return "cannot be told, the interval is too wide"
            return "no difference found" if self.found.over_seeds else "one seed says so"
        if not self.found.over_seeds:
            return "one seed says otherwise" if sign in against else "one seed says so"
        return "does not hold" if sign in against else "holds"


def in_short(claims: Sequence[Claim]) -> str:
    """What holds, what one seed suggests, what does not hold, and what cannot be told."""
    if not claims:
        return "**In short:** not run yet."
    kinds = {
        "Holds here": ("holds", "no difference found"),
        "One seed suggests": ("one seed says so",),
        "Does not hold here": ("does not hold",),
        "One seed says otherwise": ("one seed says otherwise",),
    }
    parts = []
    for title, verdicts in kinds.items():
        told = [
            f"{c.text} ({c.found.plain}{', no difference' if c.verdict == 'no difference found' else ''})"
            for c in claims
            if c.verdict in verdicts
        ]
        if told:
            parts.append(f"{title}: {'; '.join(told)}.")
    rest = [c for c in claims if c.verdict not in [v for verdicts in kinds.values() for v in verdicts]]
    if rest:
        widest = max((c.found.half or 0.0 for c in rest), default=0.0)
        width = f", with intervals of up to ± {widest:.1f} points" if widest else ""
        parts.append(f"Cannot be told from these runs{width}: whether {'; whether '.join(c.text for c in rest)}.")
    return f"**In short:** {' '.join(parts)}"
