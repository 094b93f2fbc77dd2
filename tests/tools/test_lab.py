"""The lab trains what has no record, each run once, and loses nothing when it is stopped."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tools import quiet, runs
from tools.lab.jobs import Experiment, Job, foreseen, jobs, known_records
from tools.lab.plan import plan
from tools.lab.rerun import rerun
from tools.lab.run import next_job, read_failed, run
from vixformer.documents.reproduce import forward_macs
from vixformer.recipes import RECIPES, load_recipe
from vixformer.results.records import Record, read_records
from vixformer.results.runs import SUMMARY

SMALL = {"data.test_fraction": 0.1, "train.batch_size": 32}
EXACT, FOURIER = "quick/exact", "quick/fourier"


def experiment(**more: Any) -> Experiment:
    return Experiment(
        **{
            "name": "small",
            "rows": (EXACT, FOURIER),
            "epochs": 1,
            "seeds": 2,
            "fraction": 0.02,
            "changes": SMALL,
            **more,
        }
    )


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks, runs and records of its own: a lab may be running, and tests hold its lock."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(runs, "RECORDS", tmp_path / "records")


def recorded(*found: Job, top1: float = 50.0) -> dict[str, Record]:
    record: Any = {"summary": {"val_top1": top1}}
    return {job.id: record for job in found}


def test_every_row_has_its_first_seed_before_the_second_of_any() -> None:
    found = [(job.name, job.recipe.train.seed, job.recipe.data.split_seed) for job in jobs(experiment(), {})]
    assert found == [(EXACT, 0, 0), (FOURIER, 0, 0), (EXACT, 1, 1), (FOURIER, 1, 1)]


def test_trials_come_first_and_choose_the_rate_of_the_rest_beside_their_own() -> None:
    tuned = experiment(tune=3)
    trials = list(jobs(tuned, {}))
    assert all(job.recipe.train.trial for job in trials)
    assert {job.recipe.train.lr for job in trials if job.name == EXACT} == {1e-3, 3e-3, 9e-3}
    best = next(job for job in trials if job.name == EXACT and job.recipe.train.lr == 9e-3)
    known = {**recorded(*trials), **recorded(best, top1=60.0)}
    rest = [job for job in jobs(tuned, known) if not job.recipe.train.trial]
    assert [(job.recipe.train.lr, job.recipe.train.seed) for job in rest if job.name == EXACT] == [
        (9e-3, 0),
        (9e-3, 1),
        (3e-3, 0),
        (3e-3, 1),
    ]
    assert {job.recipe.train.lr for job in rest if job.name == FOURIER} == {3e-3}
    diverged = {job.id for job in trials if job.recipe.train.lr == 9e-3}
    left = {id: record for id, record in known.items() if id not in diverged}
    assert {job.recipe.train.lr for job in jobs(tuned, left, diverged) if not job.recipe.train.trial} == {3e-3}


def test_a_plan_counts_the_runs_that_trials_are_for_and_leaves_failed_ones_out() -> None:
    tuned = experiment(tune=3)
    assert len(list(foreseen(tuned, {}))) == 6 + 4
    first = next(jobs(experiment(), {}))
    (planned,) = plan([experiment()], known_in_time(first))
    assert (planned.runs, planned.done) == (4, 1)
    (hopeless,) = plan([experiment()], known_in_time(first), {job.id for job in list(jobs(experiment(), {}))[1:3]})
    assert 0 < hopeless.hours < planned.hours


def known_in_time(job: Job) -> dict[str, Record]:
    """A record that says how long it took."""
    record: Any = {
        "name": job.name,
        "budget": {"epochs": 1, "train_images": 100},
        "summary": {"multiply_adds": 10**6, "train_seconds": 10.0},
    }
    return {job.id: record}


def test_a_parent_is_trained_again_where_its_weights_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "quick/child", lambda: _child())
    both = experiment(rows=("quick/child", EXACT), seeds=1)
    parent, child = jobs(both, {})
    assert (parent.name, child.name, child.parent) == (EXACT, "quick/child", parent)
    assert next_job([both], {}, set()) == parent
    assert next_job([both], recorded(parent), set()) == parent
    assert next_job([both], recorded(parent), {parent.id}) is None
    assert next_job([both], recorded(parent, child), set()) is None
    parent.folder.mkdir(parents=True)
    (parent.folder / SUMMARY).touch()
    assert next_job([both], recorded(parent), set()) == child


def _child() -> Any:
    recipe = load_recipe(EXACT)
    return replace(recipe, model=replace(recipe.model, attention="nystrom"), train=replace(recipe.train, weights=EXACT))  # pyright: ignore


def test_runs_are_recorded_once_and_a_child_is_known_by_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "quick/child", lambda: _child())
    both = experiment(rows=("quick/child", EXACT), seeds=1)
    said: list[str] = []
    run([both], lanes=2, tell=said.append)
    assert {job.id for job in jobs(both, {})} == set(known_records())
    said.clear()
    run([both], lanes=1, tell=said.append)
    assert said == []


def test_a_record_that_is_trained_again_gives_the_same_numbers() -> None:
    run([experiment(rows=(EXACT,), seeds=1)], lanes=1, tell=lambda _: None)
    (record,) = known_records().values()
    threads = torch.get_num_threads()
    try:
        (again,) = rerun([record], 3, seed=0)
        assert again.differs == {}
        forged: Any = {**record, "summary": {**record["summary"], "test_top1": 99.0}}
        (again,) = rerun([forged], 1, seed=0)
        assert list(again.differs) == ["summary.test_top1"]
        elsewhere: Any = {**record, "conditions": {**record["conditions"], "processor": "another"}}
        with pytest.raises(ValueError, match="no record was made on a machine like this one"):
            list(rerun([elsewhere], 1, seed=0))
    finally:
        torch.set_num_threads(threads)


def test_a_training_that_diverges_is_not_tried_again() -> None:
    hopeless = experiment(rows=(EXACT,), seeds=1, changes={**SMALL, "train.lr": 1e30})
    said: list[str] = []
    run([hopeless], lanes=1, tell=said.append)
    assert "failed" in said[-1]
    (why,) = read_failed().values()
    assert "quick/exact, seed 0" in why
    assert known_records() == {}
    said.clear()
    run([hopeless], lanes=1, tell=said.append)
    assert said == []


def test_it_pauses_for_tests_and_resumes_in_the_middle_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.lab.run.LOOK", 0.05)
    longer = experiment(rows=(EXACT,), seeds=1, epochs=4, fraction=0.2)
    (job,) = jobs(longer, {})
    said: list[str] = []
    lab = threading.Thread(target=run, args=([longer], 1, said.append))
    lab.start()
    try:
        _until((job.folder / "history.jsonl").exists)
        with quiet.quiet():
            assert said[-1] == "paused while tests or timings run"
            lines = (job.folder / "history.jsonl").read_text()
            assert (job.folder / "last.safetensors").exists()
            time.sleep(0.5)
            assert (job.folder / "history.jsonl").read_text() == lines
    finally:
        lab.join(timeout=120)
    (record,) = read_records(runs.RECORDS)
    assert len(record["curve"]["val_top1"]) == 4


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_quiet_machine_is_wanted_as_long_as_somebody_is_inside() -> None:
    assert not quiet.wanted()
    with quiet.quiet(), quiet.quiet():
        assert quiet.wanted()
    assert not quiet.wanted()


def test_experiments_are_of_recipes_that_exist() -> None:
    from tools.lab.experiments import EXPERIMENTS

    assert len({e.name for e in EXPERIMENTS}) == len(EXPERIMENTS)
    for one in EXPERIMENTS:
        for pattern in one.rows:
            assert replace(one, rows=(pattern,)).recipes(), f"{one.name}: no recipe is called {pattern}"


def test_the_cost_of_every_recipe_is_known_before_its_data_are_there() -> None:
    """Experiments are ordered by it; a folder of photographs has neither classes nor a size of its own yet."""
    from tools.lab.experiments import EXPERIMENTS

    sets = {recipe.data.name: recipe for one in EXPERIMENTS for recipe in one.recipes().values()}
    assert {"folder", "mnist", "cifar10"} <= set(sets)
    assert all(forward_macs(recipe) > 1e6 for recipe in sets.values())
