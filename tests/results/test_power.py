"""How many seeds a difference needs, checked with the estimator that judges it."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.runs import read_groups
from tools.runs import RECORDS
from vixformer.cli import main
from vixformer.results import power
from vixformer.results.evidence import effect, judge
from vixformer.results.power import needs, seeds_needed, uncertainty

DRAWS = 1_500


def decided(n: int, sd: float, apart: float, margin: float, paired: bool, verdict: str) -> float:
    """The share of experiments of n seeds that give this verdict."""
    rng = np.random.default_rng(0)
    count = 0
    for _ in range(DRAWS):
        base = rng.normal(0, 3, n) if paired else rng.normal(0, sd, n)
        other = base + rng.normal(apart, sd, n) if paired else rng.normal(apart, sd, n)
        found = effect(dict(enumerate(other)), dict(enumerate(base, 0 if paired else 1000)))
        count += judge([(found, "different", margin)])[0].verdict == verdict
    return count / DRAWS


@pytest.mark.parametrize(("sd", "paired"), [(0.6, True), (1.5, True), (0.8, False)])
def test_so_many_seeds_show_it_in_four_of_five_experiments(sd: float, paired: bool) -> None:
    n = seeds_needed(sd, effect=1.0, paired=paired)
    assert decided(n, sd, 1.0, 0.1, paired, "shown") >= 0.77
    assert decided(n - 1, sd, 1.0, 0.1, paired, "shown") <= 0.83


@pytest.mark.parametrize(("sd", "paired"), [(0.4, True), (0.9, True), (0.5, False)])
def test_so_many_seeds_rule_it_out_in_four_of_five_experiments(sd: float, paired: bool) -> None:
    n = seeds_needed(sd, margin=0.5, paired=paired)
    assert decided(n, sd, 0.0, 0.5, paired, "ruled out") >= 0.75
    assert decided(n - 1, sd, 0.0, 0.5, paired, "ruled out") <= 0.83


def test_what_is_known_of_power() -> None:
    assert seeds_needed(1.0, effect=1.0) == 10  # as G*Power has it for a paired t test, d = 1, two-sided, 80 %
    assert seeds_needed(1.0, effect=1.0, paired=False) == 17
    assert seeds_needed(1.0, effect=0.5) == 34
    assert seeds_needed(0.0, effect=1.0) == seeds_needed(0.0, margin=1.0) == 2
    assert seeds_needed(1.0, effect=1.0, power=0.9) > 10
    low, high = uncertainty(3)
    assert (low, high) == pytest.approx((0.521, 6.285), abs=1e-3)
    with pytest.raises(ValueError, match="one of them"):
        seeds_needed(1.0)
    with pytest.raises(ValueError, match="must be above 0"):
        seeds_needed(1.0, effect=0.0)


def test_the_table_is_of_the_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = {group.name: group for group in read_groups([runs])}
    made, few = needs(list(groups.values()), 1.0, 0.5)
    assert (sorted(n.one for n in made), {n.other for n in made}, few) == (["all", "mixed", "more"], {"exact"}, [])
    for need in made:
        found = effect(groups[need.one].repetitions(), groups["exact"].repetitions())
        assert need.found == found
        mine, theirs = (np.array(list(groups[n].repetitions().values())) for n in (need.one, "exact"))
        assert need.sd == pytest.approx(np.std(mine - theirs, ddof=1))
        assert (need.show, need.rule_out) == (seeds_needed(need.sd, effect=1.0), seeds_needed(need.sd, margin=0.5))
        spent = [(run.summary or {})["seconds_in_all"] for n in (need.one, "exact") for run in groups[n].runs]
        assert need.seconds_for(5) == pytest.approx(3 * sum(spent) / 2)
        assert need.seconds_for(2) == 0
    main(["power", str(runs), "--effect", "2", "--margin", "1", "--against", "mixed"])
    said = capsys.readouterr().out
    assert "to show 2" in said
    assert "seeds to rule out 1 " in said
    assert "Intervals of 95 %: paired by seed and split." in said
    assert "A spread of 2 seeds is uncertain" in said
    assert said.count(" mixed ") >= 3
    assert "The difference is to mixed. " in said


def test_eighty_columns_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    out.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("vixformer.tables._width", lambda: 80)
    main(["power", str(RECORDS / "lens.jsonl")])
    lines = re.sub(r"\x1b\[\d*m", "", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if line.startswith("cifar10/exact-conv ")]
    assert re.search(r"[+-]\d\.\d\d ± \d\.\d\d +\d+ +\d+ min +\d+ +[\d.]+ h$", row)
    said = " ".join(lines)
    assert "Every name in the column model begins with lens/" in said
    assert "The difference is to exact attention of the same training conditions." in said


def test_a_single_exact_run_does_not_stand_for_those_with_a_spread(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    for folder in runs.glob("exact-seed0-*"):
        shutil.copytree(folder, tmp_path / "runs" / "alone")
    made, _ = needs(read_groups([tmp_path]), 1.0, 0.5)
    assert {need.other for need in made} == {"exact"}


def test_runs_without_a_spread(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in runs.glob("*-seed0-*"):
        shutil.copytree(folder, tmp_path / folder.name)
    for args, says in (
        ([], "which runs?"),
        ([str(tmp_path)], "have too few seeds; a spread takes 2 seeds of both"),
        ([str(runs), "--against", "exakt"], 'did you mean "exact"?'),
        ([str(runs), "--effect", "-1"], "--effect must be a number of points above 0 and below 100, not -1"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(["power", *args])
        assert stop.value.code == 2
        assert says in capsys.readouterr().err


def test_a_difference_of_two_groups_has_the_degrees_of_freedom_of_both() -> None:
    assert power._error(5, 3.0, paired=True) == (pytest.approx(3 / 5**0.5), 4)
    assert power._error(5, 3.0, paired=False) == (pytest.approx(3 * (2 / 5) ** 0.5), 8)
