"""Studies on one machine: what is tried, pruned, shared, interrupted and gone on with."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.studies import RECIPE, Seen, plan, trials
from vixformer.experiments.search import study as studies
from vixformer.experiments.search.space import read_space, space_from_dict
from vixformer.experiments.search.study import Plan, Spectator, Standing, search


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
    (best,) = search(
        plan("model.num_heads=2|3; model.embed_dim=16", sampler="grid", trials=None), tmp_path, spectator=seen
    )
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
