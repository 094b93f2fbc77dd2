"""How many seeds a difference needs: to be shown, or to be ruled out, from the spread of runs that are there."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from vixformer.results.evidence import LEVEL, Effect, effect
from vixformer.results.groups import Group, twin

POWER = 0.8
CERTAIN = 40.0
"""Standard errors of an effect beyond which even two seeds show it."""
QUANTILES = 2000


def seeds_needed(
    sd: float,
    effect: float | None = None,
    margin: float | None = None,
    power: float = POWER,
    paired: bool = True,
    level: float = LEVEL,
) -> int:
    """Seeds of each model so that a true difference of `effect` is shown, or that a difference beyond `margin` is ruled
    out where there is none, with this probability.

    `sd` is the standard deviation of the differences of pairs, or without pairs that of the runs of one model. `level`
    is that of the test: less than usual where several claims are judged together.
    """
    if (effect is None) == (margin is None):
        raise ValueError("give an effect to show or a margin to rule out, one of them")
    size = effect if effect is not None else margin
    assert size is not None
    if size <= 0 or sd < 0 or not 0 < power < 1:
        raise ValueError(
            f"an effect or a margin must be above 0, a spread at least 0 and a power between 0 and 1, not {size}, {sd},"
            f" {power}"
        )
    chance = _shown if effect is not None else _ruled_out
    enough = 2
    while chance(enough, sd, size, paired, level) < power:
        enough *= 2
    few = enough // 2  # not enough, or 1
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if chance(middle, sd, size, paired, level) >= power else (middle, enough)
    return enough


def _error(n: int, sd: float, paired: bool) -> tuple[float, int]:
    """The standard error of the difference, and its degrees of freedom."""
    return sd * math.sqrt((1 if paired else 2) / n), (n - 1 if paired else 2 * n - 2)


def _shown(n: int, sd: float, size: float, paired: bool, level: float) -> float:
    from scipy.stats import nct, t

    error, freedom = _error(n, sd, paired)
    if size > CERTAIN * error:
        return 1.0
    return float(nct.sf(t.ppf(1 - level / 2, freedom), freedom, size / error))


def _ruled_out(n: int, sd: float, size: float, paired: bool, level: float) -> float:
    """The two one-sided tests both reject: the mean is within what the margin leaves beside the measured error, over
    all that it may be."""
    import numpy as np
    from scipy.stats import chi2, norm, t

    error, freedom = _error(n, sd, paired)
    if error == 0:
        return 1.0
    measured = np.sqrt(chi2.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, freedom) / freedom)
    room = size / error - t.ppf(1 - level, freedom) * measured
    return float(np.where(room > 0, 2 * norm.cdf(room) - 1, 0).mean())


@dataclass(frozen=True)
class Need:
    """Of a pair of models."""

    one: str
    other: str
    found: Effect
    sd: float
    """Of the differences of pairs, or without pairs of the runs of one model."""
    show: int
    """Seeds."""
    rule_out: int
    seconds: float
    """That one more seed of both takes."""

    def seconds_for(self, seeds: int) -> float:
        """For those that are not there."""
        return max(0, seeds - self.found.count) * self.seconds


def needs(
    groups: Sequence[Group], size: float, margin: float, against: str | None = None
) -> tuple[list[Need], list[str]]:
    """Of each model beside exact attention of the same protocol, or beside the model `against`; and which pairs have
    too few seeds."""
    pairs = [(group, other) for group in groups if (other := _other(group, groups, against)) is not None]
    known, few = [], []
    for one, other in pairs:
        found = effect(one.repetitions(), other.repetitions())
        if found is None:
            few.append(f"{one.name} and {other.name}")
        else:
            known.append((one, other, found))
    return [need(one, other, found, size, margin) for one, other, found in known], few


def need(one: Group, other: Group, found: Effect, size: float, margin: float, level: float = LEVEL) -> Need:
    """Of two models whose runs tell their spread."""
    paired = found.method == "paired"
    sd = found.error * math.sqrt(found.count) if paired else _pooled(one, other)
    show, rule_out = (
        seeds_needed(sd, **asked, paired=paired, level=level) for asked in ({"effect": size}, {"margin": margin})
    )
    return Need(one.name, other.name, found, sd, show, rule_out, _seconds(one) + _seconds(other))


def _other(group: Group, groups: Sequence[Group], against: str | None) -> Group | None:
    alike = [g for g in groups if g.protocol == group.protocol]
    if against is not None:
        other = next((g for g in alike if g.name == against), None)
    else:
        several = [g for g in groups if len(g.repetitions()) > 1]
        other = twin(group, several) or twin(group, groups) or min(alike, key=lambda g: g.name)
    return None if other is group or (against is None and group.exact and other is not None and other.exact) else other


def _pooled(one: Group, other: Group) -> float:
    return math.sqrt(statistics.fmean(statistics.variance(group.repetitions().values()) for group in (one, other)))


def _seconds(group: Group) -> float:
    """Of one repetition, with all of its folds."""
    taken = [
        (run.summary or {}).get("seconds_in_all") or (run.summary or {}).get("train_seconds", 0.0) for run in group.runs
    ]
    return sum(taken) / len(group.repetitions())


def uncertainty(count: int) -> tuple[float, float]:
    """How many times the measured spread the true one may be, with 95 % confidence."""
    from scipy.stats import chi2

    low, high = (math.sqrt((count - 1) / chi2.ppf(share, count - 1)) for share in (1 - LEVEL / 2, LEVEL / 2))
    return low, high
