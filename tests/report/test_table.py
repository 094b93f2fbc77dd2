"""The table of a report as files."""

from __future__ import annotations

from dataclasses import replace

from tests.support.runs import recorded
from vixformer.report.sentences import answers
from vixformer.report.table import ABOUT_ONE_SEED, as_latex
from vixformer.results.groups import Group


def latex(seeds: int) -> str:
    """Of two models that differ by five points."""
    groups = [
        Group(
            name,
            tuple(
                replace(run, summary={**(run.summary or {}), "test_top1": top1 + 0.1 * i})
                for i, run in enumerate(recorded(name)[:seeds])
            ),
        )
        for name, top1 in (("hybrid/mnist/all-standard", 50.0), ("hybrid/mnist/all-relu-64", 55.0))
    ]
    return as_latex(groups, answers(groups))


def test_an_interval_of_one_seed_says_so_in_a_paper() -> None:
    text = latex(1)
    assert r"^{*}$ & open" in text
    assert text.count("^{*}") == 2
    assert text.splitlines()[-2:] == [
        rf"\multicolumn{{10}}{{l}}{{\footnotesize $^{{*}}$ {ABOUT_ONE_SEED}}} \\",
        r"\end{tabular}",
    ]
    assert "*" not in latex(2)
