"""Workers that share a study, are interrupted, and die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.support.studies import RECIPE, Seen, plan, trials
from vixformer.cli import main
from vixformer.config import Recipe
from vixformer.experiments.search import study as studies
from vixformer.experiments.search.space import read_space
from vixformer.experiments.search.storage import close_storage, open_storage
from vixformer.experiments.search.study import Plan, Standing, search
from vixformer.training.lock import InUseError


@pytest.mark.slow
def test_interrupted_and_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """First in a process of its own, then in this one."""
    (tmp_path / "recipe.json").write_text(RECIPE.to_json())
    args = ["search", str(tmp_path / "recipe.json"), "--study", "study", "--out", str(tmp_path)]
    args += ["--space", "train.seed=0|1|2; train.epochs=6", "--sampler", "grid"]
    command = [sys.executable, "-m", "vixformer.cli", *args]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    for _ in range(600):
        if list(tmp_path.glob("study-*/last.safetensors")):
            break
        time.sleep(0.1)
    first.send_signal(signal.SIGINT)
    _, complaint = first.communicate(timeout=300)
    assert first.returncode == 130
    assert "rerun the same command to resume the study" in complaint
    assert "Traceback" not in complaint
    main(args)
    assert "Best trial by most val_top1" in capsys.readouterr().out
    states = [t.state.name for t in trials(tmp_path)]
    assert states.count("COMPLETE") == 3
    assert states.count("FAIL") <= 1  # the one that was interrupted, and came back
    assert len(list(tmp_path.glob("study-*/summary.json"))) == 3


@pytest.mark.parametrize("workers", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 8))])
def test_workers_that_begin_at_the_same_moment(workers: int, tmp_path: Path) -> None:
    """Each finds the tables, whoever makes them."""
    store = "from vixformer.experiments.search.storage import *; close_storage(open_storage(None, Path(sys.argv[1])))"
    script = f"import sys; from pathlib import Path; {store}"
    command = [sys.executable, "-c", script, str(tmp_path)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(workers)]
    for worker in started:
        _, complaint = worker.communicate(timeout=300)
        assert worker.returncode == 0, complaint.decode()


def test_a_grid_ends_when_nothing_of_it_is_left(tmp_path: Path) -> None:
    """A value given twice is one; and more of a grid may be asked for later."""
    twice = read_space("train.seed=0|0|1")
    assert len(search(Plan(name="grid", recipe=RECIPE, space=twice, sampler="grid", trials=1), tmp_path)) == 1
    search(Plan(name="grid", recipe=RECIPE, space=twice, sampler="grid"), tmp_path)
    storage = open_storage(None, tmp_path)
    trials = optuna.load_study(study_name="grid", storage=storage).get_trials()
    close_storage(storage)
    assert [t.state.name for t in trials] == ["COMPLETE", "COMPLETE"]
    assert sorted(t.params["train.seed"] for t in trials) == [0, 1]


def test_a_trial_whose_worker_died_before_its_first_sign_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(name="dead", recipe=RECIPE, space=read_space("train.seed=0|1"), sampler="grid")
    storage = open_storage(None, tmp_path)
    study = studies._joined(plan, storage)
    studies._asked(study, plan)
    close_storage(storage)

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr(studies, "datetime", Later)
    search(plan, tmp_path)
    storage = open_storage(None, tmp_path)
    states = [t.state.name for t in optuna.load_study(study_name="dead", storage=storage).get_trials()]
    close_storage(storage)
    assert sorted(states) == ["COMPLETE", "COMPLETE", "FAIL"]


def test_a_worker_that_was_taken_for_dead_goes_on_with_other_trials(tmp_path: Path) -> None:
    """Its first trial is failed by somebody else while it trains, as other workers do after too long a silence."""

    class Late(Seen):
        def trial_begins(self, number: int, recipe: Recipe, standing: Standing) -> None:
            if not self.recipes:
                storage = open_storage(None, tmp_path)
                (trial,) = optuna.load_study(study_name="study", storage=storage).get_trials()
                storage.set_trial_state_values(trial._trial_id, optuna.trial.TrialState.FAIL)
                close_storage(storage)
            super().trial_begins(number, recipe, standing)

    watch = Late()
    search(plan("train.lr=1e-3|1e-4", trials=2, sampler="random"), tmp_path, spectator=watch)
    assert [t.state.name for t in trials(tmp_path)] == ["FAIL", "COMPLETE", "COMPLETE"]
    assert [state for state, _ in watch.ends] == ["complete", "complete"]


def test_a_run_that_somebody_else_is_at_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def occupied(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(studies, "train", really)
        raise InUseError("in use")

    really = studies.train
    monkeypatch.setattr(studies, "train", occupied)
    monkeypatch.setattr(studies, "WAIT", 0.01)
    watch = Seen()
    search(plan("train.lr=1e-3", trials=1, sampler="random"), tmp_path, spectator=watch)
    assert watch.ends == [("complete", None)]


def test_the_first_worker_draws_from_the_seed(tmp_path: Path) -> None:
    plan = Plan(
        name="seed", recipe=RECIPE, space=read_space("train.lr=1e-5..1e-2:log"), trials=2, sampler="random", seed=7
    )
    drawn = []
    for folder in ("a", "b"):
        search(plan, tmp_path / folder)
        storage = open_storage(None, tmp_path / folder)
        drawn.append([t.params for t in optuna.load_study(study_name="seed", storage=storage).get_trials()])
        close_storage(storage)
    assert drawn[0] == drawn[1]
