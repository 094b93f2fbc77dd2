"""The pages of results say what the runs beside them say."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_ind

from tools.pages import RESULTS, difference, pages
from tools.runs import kept_runs
from vixformer import list_recipes
from vixformer.config import read_recipe


def test_pages_are_what_the_runs_give() -> None:
    """`make results` changes nothing: neither page nor run was edited by hand."""
    for name, text in pages().items():
        assert (RESULTS / name).read_text() == text, name


def test_kept_runs_are_of_recipes_we_have() -> None:
    runs = kept_runs()
    assert set(runs) <= set(list_recipes())
    for name, kept in runs.items():
        assert len({run.summary["seed"] for run in kept}) == len(kept), name
        assert all(len(run.history) == run.summary["epochs"] for run in kept), name
    for path in (RESULTS / "runs").glob("**/recipe.json"):
        assert read_recipe(path).data.root is None


def test_intervals_are_welchs() -> None:
    a, b = [71.0, 72.5, 73.1], [70.2, 70.9, 70.4, 71.3]
    found = difference(a, b)
    interval = ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert found.half is not None
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((interval.low, interval.high))
    assert (difference([2.0], b).half, found.verdict) == (None, "holds" if interval.low > 0 else "within noise")
