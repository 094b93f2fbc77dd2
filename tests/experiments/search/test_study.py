"""Studies on one machine: what is tried, pruned, shared, interrupted and gone on with."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch

from tests.training.test_loop import tiny
from vixformer.cli import main
from vixformer.config import Recipe
from vixformer.experiments.search import study as studies
from vixformer.experiments.search.space import Space, read_space, space_from_dict
from vixformer.experiments.search.storage import close_storage, open_storage, patiently
from vixformer.experiments.search.study import Plan, Spectator, Standing, search
from vixformer.training.lock import InUseError

RECIPE = tiny(attention="softmax", fraction=0.02, epochs=2, batch_size=16)


def plan(space: str | Space, **options: Any) -> Plan:
    given = read_space(space) if isinstance(space, str) else space
    return Plan(**{"name": "study", "recipe": RECIPE, "space": given, "trials": 3, "pruner": "none", **options})


class Seen(Spectator):
    def __init__(self) -> None:
        self.recipes: list[Recipe] = []
        self.ends: list[tuple[str, str | None]] = []
        self.standing: Standing | None = None

    def trial_begins(self, number: int, recipe: Recipe, standing: Standing) -> None:
        self.recipes.append(recipe)

    def trial_done(self, number: int, state: str, reason: str | None, standing: Standing) -> None:
        self.ends.append((state, reason))
        self.standing = standing


def trials(folder: Path, name: str = "study") -> list[Any]:
    storage = open_storage(None, folder)
    try:
        return optuna.load_study(study_name=name, storage=storage).get_trials()
    finally:
        close_storage(storage)


def test_a_grid_is_tried_whole_and_once(tmp_path: Path) -> None:
    seen = Seen()
    space = "train.lr=1e-3|3e-3; model.attention=softmax|hedgehog"
    (best,) = search(plan(space, sampler="grid", trials=None), tmp_path, spectator=seen)
    assert sorted((r.train.lr, r.model.attention) for r in seen.recipes) == [
        (lr, a) for lr in (1e-3, 3e-3) for a in ("hedgehog", "softmax")
    ]  # fmt: skip
    values = {str(t.user_attrs["folders"][0]): t.value for t in trials(tmp_path)}
    assert best.values[0] == max(values.values())
    for folder, value in values.items():
        assert json.loads((Path(folder) / "summary.json").read_text())["val_top1"] == value
    again = Seen()
    assert search(plan(space, sampler="grid", trials=None), tmp_path, spectator=again) == [best]
    assert again.recipes == []  # all is done


def test_what_cannot_be_is_pruned_with_its_reason(tmp_path: Path) -> None:
    seen = Seen()
    (best,) = search(plan("model.num_heads=2|3; model.embed_dim=16", sampler="grid", trials=None), tmp_path, spectator=seen)
    assert best.params["model.num_heads"] == 2
    assert [state for state, _ in seen.ends].count("pruned") == 1
    assert any(reason and "3" in reason and "16" in reason for state, reason in seen.ends if state == "pruned")


def test_two_objectives_give_a_front(tmp_path: Path) -> None:
    front = search(plan("model.depth=1|2|3", sampler="grid", trials=None, minimize="parameters"), tmp_path)
    assert all(a.values[0] >= b.values[0] and a.values[1] > b.values[1] for a, b in itertools.pairwise(front))
    assert front[-1].params["model.depth"] == 1  # the smallest is always on it


def test_folds_are_averaged(tmp_path: Path) -> None:
    (best,) = search(plan("train.lr=1e-3", trials=1, folds=2), tmp_path)
    values = [json.loads((Path(folder) / "summary.json").read_text())["val_top1"] for folder in best.folders]
    assert len(values) == 2
    assert best.values[0] == pytest.approx(sum(values) / 2)


def test_pruned_runs_keep_their_curves(tmp_path: Path) -> None:
    """Rates so small that nothing is learned fall behind the four that came before."""
    recipe = replace(RECIPE, train=replace(RECIPE.train, epochs=4))
    seen = Seen()
    space = "train.lr=3e-3|1e-12; train.seed=0|1|2|3"
    search(plan(space, sampler="grid", trials=None, recipe=recipe, pruner="median"), tmp_path, spectator=seen)
    assert [state for state, _ in seen.ends] == ["complete"] * 4 + ["pruned"] * 4
    assert all(reason and reason.startswith("behind the others after epoch") for _, reason in seen.ends[4:])
    for t in trials(tmp_path)[4:]:
        history = (Path(t.user_attrs["folders"][0]) / "history.jsonl").read_text().splitlines()
        assert [json.loads(line)["val_top1"] for line in history] == list(t.intermediate_values.values())
        assert len(history) < 4


def test_one_mechanism_a_layer_begins_where_the_documents_point(tmp_path: Path) -> None:
    seen = Seen()
    space = space_from_dict({"layers": ["softmax", "hedgehog"]})
    (best,) = search(plan(space, trials=3), tmp_path, spectator=seen)
    assert [r.model.attention for r in seen.recipes[:2]] == ["softmax + softmax", "hedgehog + softmax"]
    assert best.attention in ("softmax", "hedgehog", "hedgehog + softmax", "softmax + hedgehog")  # a layout expression


def test_the_same_combination_is_not_trained_twice(tmp_path: Path) -> None:
    seen = Seen()
    search(plan("train.lr=1e-3", trials=3), tmp_path, spectator=seen)
    assert [state for state, _ in seen.ends] == ["complete"] * 3
    assert len(list(tmp_path.glob("study-seed*"))) == 1


def test_a_study_of_something_else_under_the_same_name(tmp_path: Path) -> None:
    search(plan("train.lr=1e-3", trials=1), tmp_path)
    with pytest.raises(ValueError, match='there is a study called "study" with another space'):
        search(plan("train.lr=1e-4", trials=1), tmp_path)
    other = replace(RECIPE, train=replace(RECIPE.train, epochs=1))
    with pytest.raises(ValueError, match='there is a study called "study" with another recipe'):
        search(plan("train.lr=1e-3", trials=1, recipe=other), tmp_path)


def test_storages_that_cannot_be(tmp_path: Path) -> None:
    for where, message in (
        ("mysql://here/x", "--storage must be postgresql://USER@HOST/NAME, sqlite:///FILE or journal:FILE, not mysql"),
        ("postgresql://me:secret@127.0.0.1:1/x", r"postgresql\+psycopg://me:\*\*\*@127.0.0.1:1/x cannot be reached"),
    ):
        with pytest.raises(ValueError, match=message):
            search(plan("train.lr=1e-3", trials=1), tmp_path, where)


def test_a_journal_file_works_too(tmp_path: Path) -> None:
    (best,) = search(plan("train.lr=1e-3", trials=2), tmp_path, f"journal:{tmp_path / 'journal'}")
    assert best.values[0] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(metric="test_top1"), 'unknown metric "test_top1"'),
        (dict(minimize="val_top1"), "--minimize takes what is better when it is less, not val_top1"),
        (dict(trials=None), "how many trials"),
    ],
)
def test_plans_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan("train.lr=1e-3", **options)


def test_waiting_for_a_database() -> None:
    from sqlalchemy.exc import OperationalError

    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OperationalError("select 1", {}, Exception("gone"))
        return "here"

    assert patiently(call) == "here"
    with pytest.raises(ValueError, match="has not answered"):
        patiently(lambda: (_ for _ in ()).throw(OperationalError("select 1", {}, Exception("gone"))), seconds=0.0)
    with pytest.raises(KeyError):
        patiently(lambda: {}["x"])


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


@pytest.mark.parametrize("start", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))])
def test_workers_that_begin_at_the_same_moment(start: int, tmp_path: Path) -> None:
    """Each finds the tables, whoever makes them."""
    store = "from vixformer.experiments.search.storage import *; close_storage(open_storage(None, Path(sys.argv[1])))"
    script = f"import sys; from pathlib import Path; {store}"
    command = [sys.executable, "-c", script, str(tmp_path)]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    for worker in workers:
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


def test_a_trial_whose_worker_died_before_its_first_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_does_not_fit_into_memory_is_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def large(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(studies, "train", large)
    reasons: list[str | None] = []

    class Watch(Spectator):
        def trial_done(self, number: int, state: str, reason: str | None, standing: Standing) -> None:
            reasons.append(reason)

    search(Plan(name="large", recipe=RECIPE, space=read_space("train.seed=0|1"), trials=2), tmp_path, spectator=Watch())
    assert reasons == ["it does not fit into memory"] * 2


def test_the_first_worker_draws_from_the_seed(tmp_path: Path) -> None:
    plan = Plan(name="seed", recipe=RECIPE, space=read_space("train.lr=1e-5..1e-2:log"), trials=2, sampler="random", seed=7)
    drawn = []
    for folder in ("a", "b"):
        search(plan, tmp_path / folder)
        storage = open_storage(None, tmp_path / folder)
        drawn.append([t.params for t in optuna.load_study(study_name="seed", storage=storage).get_trials()])
        close_storage(storage)
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    ("space", "sentence"),
    [
        ({"train.lr": {"range": ["a", "b"]}}, "train.lr: a range has two numbers"),
        ({"train.lr": {"log": [1]}}, "train.lr: a range has two numbers"),
        ({"train.lr": ["abc", "def"]}, "train.lr: none of its values can be"),
        ({"schedule": {"a": {"train.schedule": "nonsense"}}}, "schedule: none of its values can be"),
    ],
)
def test_spaces_that_cannot_be_leave_nothing_behind(space: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Plan(name="bad", recipe=RECIPE, space=space_from_dict(space), trials=1)


def test_templates_among_choices() -> None:
    space = read_space("model.attention=performer(features={m})|softmax; m=16|64")
    space.check(RECIPE)
    found = space.applied(RECIPE, {"model.attention": "performer(features={m})", "m": 64})
    assert "64" in found.model.attention


def test_what_is_not_measured_cannot_be_asked_for() -> None:
    unmeasured = replace(RECIPE, train=replace(RECIPE.train, measure=False))
    with pytest.raises(ValueError, match=r"train\.measure is off"):
        Plan(name="x", recipe=unmeasured, space=read_space("train.seed=0|1"), trials=1, minimize="inference_ms")
