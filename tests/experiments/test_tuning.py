"""Equal tuning: as many trials for each model, then seeds that no trial had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.recipes import tiny
from tests.support.runs import read_groups
from vixformer.cli import main
from vixformer.commands.comparison import comparison
from vixformer.config import Recipe
from vixformer.experiments import compare as comparing
from vixformer.experiments.budget import Cut
from vixformer.experiments.compare import Comparison, compare
from vixformer.experiments.tuning import APART, Tuned, rates
from vixformer.results.runs import Spread, list_runs, read_run
from vixformer.training.observer import Observer


def recipes(**rates: float) -> dict[str, Recipe]:
    found = {
        name: tiny(attention=attention, epochs=1) for name, attention in (("exact", "softmax"), ("other", "fourier"))
    }
    return {
        name: replace(r, train=replace(r.train, lr=rates.get(name, 1e-3), measure=False)) for name, r in found.items()
    }


def test_rates_are_a_factor_of_three_apart_around_the_recipes_own() -> None:
    assert rates(1e-3, 3) == [1e-3, 3.33e-4, 3e-3]
    assert rates(1e-3, 5) == [1e-3, 3.33e-4, 3e-3, 1.11e-4, 9e-3]
    for wrong in (1, 2, 4):
        with pytest.raises(ValueError, match=f"--tune must be an odd number of at least 3, .* not {wrong}"):
            rates(1e-3, wrong)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """The rate of one recipe is far too low, and another would be better; the other's largest rate diverges."""
    out = tmp_path_factory.mktemp("tuned")
    return out, compare(recipes(exact=1e-5), out, seeds=2, tune=3)


def test_every_model_gets_as_many_trials_and_then_fresh_seeds(tuned: tuple[Path, Comparison]) -> None:
    out, found = tuned
    runs = list_runs(out)
    trials = [run for run in runs if run.recipe.train.trial]
    final = [run for run in runs if not run.recipe.train.trial]
    for name in ("exact", "other"):
        assert sum(run.folder.name.startswith(name) for run in trials) == 3
    assert {(run.recipe.train.seed, run.recipe.data.split_seed) for run in trials} == {(APART, APART)}
    assert {(run.recipe.train.seed, run.recipe.data.split_seed) for run in final} == {(0, 0), (1, 1)}
    for row in found.rows:
        assert row.tuned is not None
        tops = {r.recipe.train.lr: (r.summary or {})["val_top1"] for r in trials if r.folder.name.startswith(row.name)}
        assert set(tops) == set(row.tuned.tried)
        assert tops[row.tuned.rate] == max(tops.values())
        assert {read_run(folder).recipe.train.lr for folder in row.folders} == {row.tuned.rate}


def test_the_result_without_tuning_is_of_the_same_seeds(tuned: tuple[Path, Comparison]) -> None:
    out, found = tuned
    final = [run for run in list_runs(out) if not run.recipe.train.trial]
    for row in found.rows:
        assert row.tuned is not None
        own = [r for r in final if r.folder.name.startswith(row.name) and r.recipe.train.lr == row.tuned.own]
        assert len(own) == 2  # where the rate chosen is its own they are the runs of the row
        assert row.untuned is not None
        assert row.untuned.mean == pytest.approx(sum((r.summary or {})["test_top1"] for r in own) / 2)
    columns, cells, notes = comparison(found)
    at = {name: columns.index(name) for name in ("rate", "untuned %", "verdict")}
    for row, line in zip(found.rows, cells, strict=True):
        assert row.tuned is not None
        assert (line[at["rate"]], line[at["untuned %"]]) == (f"{row.tuned.rate:g}", str(row.untuned))
    assert any(note.startswith("Rate: each model got 3 learning-rate trials, a factor of 3 apart") for note in notes)
    exact = next(row for row in found.rows if row.name == "exact")
    assert exact.tuned is not None
    if exact.tuned.at_the_end:
        assert any("a rate beyond may be better: exact" in note and "Try --tune 5" in note for note in notes)


def test_the_same_command_finds_everything_again(tuned: tuple[Path, Comparison]) -> None:
    out, before = tuned
    asked: list[bool] = []
    after = compare(
        recipes(exact=1e-5), out, seeds=2, tune=3, observer=lambda *given: asked.append(given[2]) or Observer()
    )
    assert asked
    assert all(asked)
    assert [(r.test_top1, r.tuned, r.untuned) for r in after.rows] == [
        (r.test_top1, r.tuned, r.untuned) for r in before.rows
    ]


def test_reports_leave_trials_out_and_take_splits_together(tuned: tuple[Path, Comparison]) -> None:
    out, found = tuned
    groups = read_groups([out])
    assert not [run for group in groups for run in group.runs if run.recipe.train.trial]
    assert all(len(group.runs) == 2 for group in groups)
    assert (
        len({group.name for group in groups})
        == len(groups)
        == len(found.rows) + sum(r.tuned.rate != r.tuned.own for r in found.rows if r.tuned)
    )


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_trial_that_diverges_is_not_chosen_and_stops_nothing(tmp_path: Path, jobs: int) -> None:
    wild = {
        name: replace(r, train=replace(r.train, optimizer="sgd", lr=1e15, clip=None)) for name, r in recipes().items()
    }
    with pytest.raises(ValueError, match=r"exact diverged at every rate tried .* give a smaller --train.lr"):
        compare({"exact": wild["exact"]}, tmp_path, tune=3, jobs=jobs)


def test_notes_of_trials() -> None:
    from tests.support.rows import row

    rows = [
        replace(
            row("exact", "softmax", {0: 70.0}),
            tuned=Tuned(1e-3, 1e-3, (1e-3, 3e-4, 3e-3), (3e-3,)),
            untuned=Spread(70.0, None, 1),
        )
    ]
    _, _, notes = comparison(Comparison(rows, tune=5))
    assert any(
        "got 3 learning-rate trials of the 5 asked for, because the budget left no time for more" in note
        for note in notes
    )
    assert "Trials that diverged: exact at 0.003." in notes


def test_a_budget_that_ends_early_favors_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(comparing, "_cut", lambda *given: asked.append(given[2]) or Cut(1, 1.0))
    found = compare(recipes(), tmp_path, seeds=2, tune=3, budget=1e-3)
    # runs of each model that the time is shared among: trials, tuned seeds and untuned seeds
    assert asked == [3 + 2 * 2]
    # one is always trained, and none got a trial that the other has not
    assert [r.name for r in found.rows] == ["exact"]
    assert [r.tuned and r.tuned.tried for r in found.rows] == [()]
    assert found.enough is not None
    assert sum("trial" in run.recipe.to_dict()["train"] for run in list_runs(tmp_path)) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--tune", "4"), "--tune must be an odd number of at least 3"),
        (("--tune", "3", "--data.val-fraction", "0"), "--tune chooses on validation images, and quick/exact has none"),
        (("--margin", "none"), "--margin must be a number of points above 0 and below 100, not none"),
        (("--margin", "0"), "--margin must be a number of points above 0 and below 100, not 0"),
    ],
)
def test_bad_input(args: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", "quick/exact", "--out", str(tmp_path / "runs"), *args])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
