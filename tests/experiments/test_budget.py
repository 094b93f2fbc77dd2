"""A budget cuts all recipes alike, and what it leaves no time for is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.counting import counted
from tests.support.recipes import quick
from vixformer import load_recipe
from vixformer.cli import main
from vixformer.commands.comparison import comparison
from vixformer.config import GIVEN, Recipe, recipe_from_dict
from vixformer.experiments import budget as budgeting
from vixformer.experiments import compare as comparing
from vixformer.experiments.budget import AROUND, FEWEST, LEAST_EPOCHS, SMALLEST, STEPS, Cut, Probe, Prober, cut
from vixformer.experiments.lanes import Lanes
from vixformer.measure.load import Load
from vixformer.results.runs import list_runs
from vixformer.training.observer import Observer
from vixformer.training.optim import learning_rate
from vixformer.training.parts import Reader

SLOW = Probe(train_image=1e-3, evaluated_image=5e-4, train_images=9000, val_images=1000, test_images=2000, epochs=1000)
FAST = replace(SLOW, train_image=5e-4)


def test_fewer_epochs_then_less_data() -> None:
    recipes = [
        replace(r, train=replace(r.train, epochs=e))
        for e, r in ((20, load_recipe("quick/exact")), (30, load_recipe("quick/fourier")))
    ]
    an_epoch, at_the_end = 9 + 0.5 + 4.5 + 0.5, 2 * (1 + AROUND)
    assert cut(recipes, [SLOW, FAST], 1, 1e6) == Cut(20, 1.0)  # never more than the shortest asks for
    assert cut(recipes, [SLOW, FAST], 1, 10 * an_epoch + at_the_end) == Cut(10, 1.0)
    assert cut(recipes, [SLOW, FAST], 2, 2 * (10 * an_epoch + at_the_end)) == Cut(10, 1.0)
    few = cut(recipes, [SLOW, FAST], 1, 1 * an_epoch + at_the_end)
    assert few == Cut(LEAST_EPOCHS, 1 / LEAST_EPOCHS)
    least = 3 * (SMALLEST * an_epoch + at_the_end)
    assert cut(recipes, [SLOW, FAST], 3, least + 0.01) == Cut(1, SMALLEST)
    assert cut(recipes, [SLOW, FAST], 3, 8) == Cut(1, SMALLEST)  # not for all, but for those that get their turn
    small = [replace(p, train_images=270, val_images=30) for p in (SLOW, FAST)]
    assert cut(recipes, small, 3, 8) == Cut(1, FEWEST / 300)  # 1 % of a small set would not have every class in it
    with pytest.raises(
        ValueError, match=r"not one run fits: 2 recipes, 3 runs each, need about 1 minutes .* give --budget 2m"
    ):
        cut(recipes, [SLOW, FAST], 3, 2)


def test_timing_takes_its_part_of_the_time() -> None:
    _, recipe = quick("quick/exact")
    assert isinstance(recipe, Recipe)
    prober = Prober(0.0)
    with counted() as found:
        calls = [prober(recipe, left) for left in (3, 2, 1)]
    assert (found["train"], found["test"]) == (1, 1)  # the data set is read once
    assert all(found.train_image > 0 for found in calls)


def test_a_recipe_that_needs_a_model_of_ones_own_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (name, recipe) = quick("quick/exact")
    assert isinstance(recipe, Recipe)
    asking = replace(recipe, train=replace(recipe.train, weights=GIVEN))
    found = comparing.compare({str(name): recipe, "mine": asking}, tmp_path)
    assert found.not_run == ("mine (it starts from a trained model: give --train.weights FOLDER)",)
    with pytest.raises(ValueError, match="nothing to train: mine"):
        comparing.compare({"mine": asking}, tmp_path)
    with pytest.raises(SystemExit):
        main(["train", "cifar-kernels/vit-pretrained", "--data.name", "fashion-mini"])
    assert "this recipe starts from a trained model: give --train.weights FOLDER" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["compare", "nothing/*"])
    assert 'unknown recipe "nothing/*"' in capsys.readouterr().err


def test_a_cut_recipe_keeps_its_shape() -> None:
    recipe = load_recipe("fast-attention/exp1/vit")
    less = Cut(7, 0.5).applied(recipe)
    assert (less.train.epochs, less.train.restart_every, less.data.fraction, less.train.track_test) == (
        7,
        1,
        0.5,
        False,
    )
    assert (less.model, less.train.lr) == (recipe.model, recipe.train.lr)
    assert isinstance(less.train.restart_every, int)
    calm = Cut(10, 1.0).applied(load_recipe("cifar-kernels/gelu-2"))
    assert calm.train.warmup == 0.5
    assert Cut(10, 1.0).applied(load_recipe("cifar-kernels/relu")).train.step_every == 1


@pytest.mark.parametrize("epochs", [4, 7, 10, 31])
@pytest.mark.parametrize("name", ["exp1", "exp5"])
def test_growing_restarts_end_with_training_under_a_budget(name: str, epochs: int) -> None:
    """10 + 20 + 40 of 70 epochs: with whole epochs a run of 4 would end in the first quarter of its last period, near
    the largest rate."""
    recipe = load_recipe(f"fast-attention/{name}/vit")
    cut_down = Cut(epochs, 1.0).applied(recipe)
    share = epochs / recipe.train.epochs
    for epoch in (0.0, 9.9, 10.1, 30.5, recipe.train.epochs - 0.5):
        assert learning_rate(cut_down.train, epoch * share) == pytest.approx(
            learning_rate(recipe.train, epoch), rel=1e-6
        )
    again = recipe_from_dict(cut_down.to_dict(), "cut")
    assert again == cut_down


def test_a_probe_measures() -> None:
    _, recipe = quick("quick/exact")
    assert isinstance(recipe, Recipe)
    found = Prober()(recipe)
    assert (found.train_images, found.val_images, found.test_images) == (180, 20, 2000)
    assert 0 < found.evaluated_image < found.train_image < 1


@pytest.mark.parametrize(("jobs", "seeds"), [(1, 2), pytest.param(2, 1, marks=pytest.mark.slow)])
def test_compare_with_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, seeds: int) -> None:
    recipes = dict(quick(name) for name in ("quick/exact", "quick/fourier"))
    recipes = {n: replace(r, train=replace(r.train, epochs=3)) for n, r in recipes.items()}  # pyright: ignore
    begun: list[str] = []
    found = comparing.compare(
        recipes,
        tmp_path,
        seeds=seeds,
        budget=600.0,
        jobs=jobs,
        observer=lambda name, *_: begun.append(name) or Observer(),
    )
    labels = [f", seed {seed}" for seed in range(seeds)] if seeds > 1 else [""]
    assert begun == [f"quick/{name}{label}" for label in labels for name in ("exact", "fourier")]
    assert (found.cut, found.not_run, [r.seeds for r in found.rows]) == (Cut(3, 1.0), (), [seeds, seeds])
    assert "3 epochs and all of the training images, which is all that its recipe says" in comparison(found)[2][-1]

    monkeypatch.setattr(comparing, "Prober", not_again)
    assert len(comparing.compare(recipes, tmp_path, seeds=seeds, budget=600.0, jobs=jobs).rows) == 2
    assert len(list_runs(tmp_path)) == 2 * seeds


def test_what_the_budget_leaves_no_time_for_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = dict(quick(name) for name in ("quick/exact", "quick/fourier"))
    monkeypatch.setattr(comparing, "_cut", lambda *_: Cut(1, 1.0))  # a probe that was too hopeful
    found = comparing.compare(recipes, tmp_path, seeds=2, budget=1e-3)  # pyright: ignore[reportArgumentType]
    assert [r.name for r in found.rows] == ["quick/exact"]
    assert found.not_run == ("quick/fourier, seed 0", "quick/exact, seed 1", "quick/fourier, seed 1")
    notes = comparison(found)[2]
    assert "Not run: quick/fourier, seed 0; quick/exact, seed 1; quick/fourier, seed 1." in notes
    assert notes[-1].startswith("The budget was too small for all runs. Another minute is enough for the rest: run the")
    assert "run the same command again with --budget 1m, which keeps the finished runs." in notes[-1]

    monkeypatch.undo()
    monkeypatch.setattr(comparing, "Prober", not_again)  # what was trained is not trained otherwise
    rest = comparing.compare(recipes, tmp_path, seeds=2, budget=60.0)  # pyright: ignore[reportArgumentType]
    assert (rest.cut, rest.enough, rest.not_run) == (Cut(1, 1.0), None, ())
    assert [r.seeds for r in rest.rows] == [2, 2]
    assert len(list_runs(tmp_path)) == 4


def test_one_model_is_trained_whatever_its_parent_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, recipe = quick("quick/exact")
    assert isinstance(recipe, Recipe)
    monkeypatch.setattr("vixformer.conversion.parent.load_recipe", lambda _: recipe)  # a small parent
    child = replace(
        recipe, train=replace(recipe.train, weights="quick/exact"), model=replace(recipe.model, attention="hedgehog")
    )
    monkeypatch.setattr(comparing, "_cut", lambda *_: Cut(1, 1.0))
    found = comparing.compare({"child": child}, tmp_path, budget=1e-3)
    assert [row.name for row in found.rows] == ["child"]


def not_again(seconds: float) -> Prober:
    raise AssertionError("what was chosen stays")


def test_every_row_has_the_same_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = dict(quick(name) for name in ("quick/exact", "quick/fourier"))
    monkeypatch.setattr(comparing, "_cut", lambda *_: Cut(1, 1.0))
    before = comparing.compare({"quick/exact": recipes["quick/exact"]}, tmp_path, seeds=3, budget=1e6)  # pyright: ignore
    found = comparing.compare(recipes, tmp_path, seeds=3, budget=1e-3)  # pyright: ignore[reportArgumentType]
    assert [(r.name, r.seeds, list(r.by_seed), r.test_top1.count) for r in found.rows] == [
        ("quick/exact", 1, [0], 1), ("quick/fourier", 1, [0], 1),
    ]  # fmt: skip
    assert found.rows[0].test_top1.mean == before.rows[0].by_seed[0]
    assert found.left_out == ("quick/exact, seed 1", "quick/exact, seed 2")
    notes = comparison(found)[2]
    assert "one seed" in notes[0]
    assert "Not in the table, because not all models have it: quick/exact, seed 1; quick/exact, seed 2." in notes


def test_a_round_that_does_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be left out of the table: a seed that only some models have."""
    recipes = dict(quick(name) for name in ("quick/exact", "quick/fourier"))
    monkeypatch.setattr(comparing, "_cut", lambda *_: Cut(1, 1.0))
    clock = [0.0]

    class Lane(Lanes):
        def train(self, label: str, *args: Any, **options: Any) -> None:
            super().train(label, *args, **options)
            self.took[label] = 40.0 if "exact" in label else 20.0
            self.longest = 40.0
            clock[0] += self.took[label]

    monkeypatch.setattr(comparing, "Lanes", Lane)
    monkeypatch.setattr(comparing, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    # two rounds of a minute leave 55 s, with a tenth more than the budget, and without the timing of two models
    found = comparing.compare(recipes, tmp_path, seeds=3, budget=160.0)  # pyright: ignore[reportArgumentType]
    assert clock[0] == 120.0  # two rounds of a minute; one more model of 40 s would fit, and nobody to compare it with
    assert [r.seeds for r in found.rows] == [2, 2]
    assert found.not_run == ("quick/exact, seed 2", "quick/fourier, seed 2")
    assert found.enough == 120.0  # a minute, and a fifth more


def test_a_round_that_nearly_fits_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seeds were cut to what fits, and the last round was dropped because others had been a little slower."""
    recipes = dict(quick(name) for name in ("quick/exact", "quick/fourier"))
    monkeypatch.setattr(comparing, "_cut", lambda *_: Cut(1, 1.0))
    clock = [0.0]

    class Lane(Lanes):
        def train(self, label: str, *args: Any, **options: Any) -> None:
            super().train(label, *args, **options)
            self.took[label] = self.longest = 30.0
            clock[0] += 30.0

    monkeypatch.setattr(comparing, "Lanes", Lane)
    monkeypatch.setattr(comparing, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    found = comparing.compare(recipes, tmp_path, seeds=2, budget=112.0)  # pyright: ignore[reportArgumentType]
    assert (found.not_run, clock[0]) == ((), 120.0)


def test_a_short_budget_is_for_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 s for six runs, 10 s were training, and the rest was measuring memory."""
    recipes = {name: load_recipe(name) for name in ("quick/exact", "quick/fourier")}
    for budget, measured in ((60.0, False), (6000.0, True)):
        asked: list[Recipe] = []
        monkeypatch.setattr(Prober, "__call__", lambda self, recipe, left=1, asked=asked: asked.append(recipe) or SLOW)
        chosen = comparing._cut(recipes, tmp_path, 3, budget, 1, print, Reader(), 1)
        assert chosen.measure is measured
        assert [recipe.train.measure for recipe in asked] == [measured] * 2
        assert all(chosen.applied(recipe).train.measure is measured for recipe in asked)


def test_beside_other_work_a_budget_trains_on_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that waited for each other took ten times as long as one."""
    recipes = dict(quick(name) for name in ("quick/exact",))
    usual, seen = torch.get_num_threads(), list[int]()
    torch.set_num_threads(2)
    try:
        for others, threads in ((2.0, 1), (0.0, 2)):
            monkeypatch.setattr(comparing, "now", lambda others=others: Load(others, 2, None))
            comparing.compare(
                recipes, tmp_path / str(threads), budget=600.0,  # pyright: ignore[reportArgumentType]
                observer=lambda *_: seen.append(torch.get_num_threads()) or Observer(),
            )  # fmt: skip
            assert (seen.pop(), torch.get_num_threads()) == (threads, 2)
    finally:
        torch.set_num_threads(usual)


def test_a_probe_takes_the_usual_call_where_others_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(budgeting.time, "perf_counter", lambda: now[0])

    def taking(*seconds: float) -> float:
        return budgeting._usual((lambda s=s: now.__setitem__(0, now[0] + s), 2) for s in seconds)

    assert taking(9.0, 1.0, 1.0, 1.1) == pytest.approx(1.15 / 2)  # cold memory, and a quiet machine
    assert taking(1.0, 1.0, 3.0, 4.0) == pytest.approx(3.0 / 2)  # other work
    assert taking(5.0) == pytest.approx(1.15 * 5.0 / 2)


def test_the_seed_that_most_models_have() -> None:
    a, b, c = (Path(name) for name in "abc")
    shown, left = comparing._shared({"one": {(0, None): a, (1, None): b}, "two": {(1, None): c}, "three": {}})
    assert (shown, left) == ({"one": [b], "two": [c]}, ["one, seed 0"])
    shown, left = comparing._shared({"one": {(0, 0): a}, "two": {(0, 1): c}})
    assert (shown, left) == ({"one": [a]}, ["two, seed 0, fold 2"])


def test_one_long_step_is_enough_of_a_probe_that_has_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of a minute took five minutes of a budget of three."""
    now = 0.0
    monkeypatch.setattr(budgeting.time, "perf_counter", lambda: now)

    def taken(seconds: float, each: float) -> int:
        nonlocal now
        count = 0
        for _ in budgeting._until(iter(range(STEPS)), seconds):
            now, count = now + each, count + 1
        return count

    assert taken(0.1, 60.0) == 1
    assert taken(0.1, 0.2) == 2  # the first one finds memory cold
    assert taken(1e3, 60.0) == STEPS
