"""Intervals of times and of their ratios."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom

from vixformer.measure.latency import median_interval, paired_ratio


@pytest.mark.parametrize("n", [4, 8, 25, 100])
def test_the_interval_of_a_median(n: int) -> None:
    middle, low, high = median_interval([float(i) for i in range(n)])
    assert middle == (n - 1) / 2
    if n < 6:  # five values have no such interval
        assert (low, high) == (0.0, math.inf)
        return
    # the widest pair of order statistics that still leaves at most 2.5 % on each side
    rank = int(low)
    assert binom.cdf(rank, n, 0.5) <= 0.025 < binom.cdf(rank + 1, n, 0.5)
    assert high == n - 1 - rank


def test_ratios_are_of_pairs() -> None:
    calm = [10.0, 10.1, 10.0, 9.9, 10.0, 10.1, 10.0, 10.0]
    drifting = [t * 2**i for i, t in enumerate(calm)]  # other work that grows is in both of a pair
    found = paired_ratio([0.5 * t for t in drifting], drifting)
    assert (found.ratio, found.low, found.high, found.verdict) == (0.5, 0.5, 0.5, "faster")
    noisy = paired_ratio([107.1, 20.0, 400.0, 30.0, 35.0, 28.0], [60.0] * 6)
    assert noisy.low < 1 < noisy.high
    assert noisy.verdict == "undecided"
    assert str(found) == "0.50 (0.50 to 0.50)"
    assert "too few" in str(paired_ratio(calm[:5], calm[:5]))


def test_confidence_of_many_pairs() -> None:
    """More than a float can count."""
    middle, low, high = median_interval([float(i) for i in range(3000)])
    assert middle == 1499.5
    assert low == pytest.approx(1499.5 - 0.98 * 3000**0.5, abs=2)
    assert high == pytest.approx(1499.5 + 0.98 * 3000**0.5, abs=2)
