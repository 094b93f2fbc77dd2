"""The estimator and its verdicts, against scipy and by simulation with known effects and noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind, ttest_rel

from vixformer.results.evidence import Effect, Says, Verdict, averaged, effect, holm, judge, margin

DRAWS = 4_000


def test_runs_that_share_seeds_are_paired_and_others_are_not() -> None:
    a, b = {0: 71.0, 1: 72.5, 2: 73.1}, {0: 70.4, 1: 71.9, 2: 72.2}
    low, high = ttest_rel(list(a.values()), list(b.values())).confidence_interval(0.95)
    found = effect(a, b)
    assert found is not None
    assert found.method == "paired"
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))
    assert found.differs() == pytest.approx(ttest_rel(list(a.values()), list(b.values())).pvalue)
    c = {7: 70.2, 8: 70.9, 9: 70.4, 10: 71.3}
    low, high = ttest_ind(list(a.values()), list(c.values()), equal_var=False).confidence_interval(0.95)
    found = effect(a, c)
    assert found is not None
    assert found.method == "welch"
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))


def test_one_seed_is_an_estimate_but_never_a_verdict() -> None:
    found = effect({0: 60.0}, {0: 50.0}, images=400)
    assert found is not None
    assert found.half == pytest.approx(100 * 1.96 * (0.6 * 0.4 / 400 + 0.5 * 0.5 / 400) ** 0.5, rel=1e-3)
    assert judge([(found, "above", 0.5)])[0].verdict == "open"
    assert effect({0: 60.0}, {0: 50.0}) is None
    assert effect({}, {0: 50.0}, images=400) is None


@pytest.mark.parametrize(
    ("says", "below", "within", "above"),
    [
        ("above", "ruled out", "ruled out", "shown"),
        ("below", "shown", "ruled out", "ruled out"),
        ("not above", "shown", "shown", "ruled out"),
        ("not below", "ruled out", "shown", "shown"),
        ("equal", "ruled out", "shown", "ruled out"),
    ],
)
def test_a_verdict_is_about_what_is_claimed(says: Says, below: Verdict, within: Verdict, above: Verdict) -> None:
    sure, wide = 0.05, 5.0
    verdicts = [judge([(Effect(mean, sure, 9, 10, "paired"), says, 0.5)])[0].verdict for mean in (-2.0, 0.0, 2.0)]
    assert verdicts == [below, within, above]
    assert judge([(Effect(0.0, wide, 9, 10, "paired"), says, 0.5)])[0].verdict == "open"


def test_many_claims_need_more_evidence_than_one() -> None:
    found = Effect(2.0, 0.8, 9, 10, "paired")
    assert judge([(found, "above", 0.5)])[0].verdict == "shown"
    assert {judged.verdict for judged in judge([(found, "above", 0.5) for _ in range(10)])} == {"open"}
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_the_margin_is_half_of_what_a_document_found() -> None:
    assert [margin(printed) for printed in (0.3, -0.9, 4.0, -3.0)] == [0.5, 0.5, 2.0, 1.5]


def test_configurations_do_not_pass_for_seeds() -> None:
    assert averaged([(1, 70.0), (0, 60.0), (1, 72.0), (0, 64.0)]) == {1: 71.0, 0: 62.0}


@pytest.mark.parametrize(("seeds", "noise"), [((3, 3), (0.6, 0.6)), ((5, 5), (1.0, 0.3)), ((5, 3), (0.5, 1.0)), ((10, 4), (1.0, 1.0))])
@pytest.mark.parametrize("pairs", [True, False])
def test_intervals_cover_what_is_true(seeds: tuple[int, int], noise: tuple[float, float], pairs: bool) -> None:
    rng = np.random.default_rng(0)
    truth, hits = 1.3, 0
    for _ in range(DRAWS):
        n = min(seeds) if pairs else seeds[0]
        m = min(seeds) if pairs else seeds[1]
        shared = rng.normal(0, 2.0, n) if pairs else np.zeros(n)  # what a seed does to both sides
        a = dict(enumerate(70 + truth + shared + rng.normal(0, noise[0], n)))
        b = dict(enumerate(70 + shared[:m] + rng.normal(0, noise[1], m), 0 if pairs else 100))
        found = effect(a, b)
        assert found is not None
        hits += abs(found.mean - truth) <= found.half
    conservative = not pairs and seeds == (3, 3)  # Welch's degrees of freedom are few there: 96.5 % and a little more
    assert 0.935 <= hits / DRAWS <= (0.975 if conservative else 0.965)


@pytest.mark.parametrize("pairs", [True, False])
def test_equivalence_is_seldom_claimed_wrongly(pairs: bool) -> None:
    """The difference is as large as the margin, the worst case for a claim that it is smaller."""
    rng = np.random.default_rng(1)
    limit, wrong = 0.5, 0
    for _ in range(DRAWS):
        a = dict(enumerate(70 + limit + rng.normal(0, 0.15, 5)))
        b = dict(enumerate(70 + rng.normal(0, 0.15, 5), 0 if pairs else 100))
        wrong += judge([(effect(a, b), "equal", limit)])[0].verdict == "shown"
    assert 0 < wrong / DRAWS <= 0.055  # 5 %, and the noise of 4,000 draws


def test_a_family_seldom_errs_at_all() -> None:
    """Ten claims that are all false, five of them of nothing and five of the margin: any verdict that errs counts."""
    rng = np.random.default_rng(2)
    limit, families = 1.0, 600
    wrong = 0
    for _ in range(families):
        effects = []
        for i in range(10):
            truth = 0.0 if i < 5 else limit
            effects.append((effect(dict(enumerate(truth + rng.normal(0, 0.4, 5))), dict(enumerate(rng.normal(0, 0.4, 5)))), "above", limit))
        judged = judge(effects)
        wrong += any(j.direction != "within" and j.p <= 0.05 for j in judged[:5]) or any(
            j.direction == "within" and j.p <= 0.05 for j in judged[5:]
        )
    assert wrong / families <= 0.065
