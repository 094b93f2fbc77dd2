"""Runs that start from others: converted, taught, or with what fits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.test_loop import tiny
from vixformer import from_pretrained
from vixformer.config import Recipe
from vixformer.recipes.registry import RECIPES
from vixformer.training.compare import compare
from vixformer.training.loop import Observer, train


class Taught(Observer):
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.epochs: list[int] = []

    def taught(self, step: int, steps: int, error: float) -> None:
        self.steps.append(step)

    def epoch_done(self, record: dict[str, Any]) -> None:
        self.epochs.append(record["epoch"])


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "parent"
    train(tiny(attention="softmax", epochs=3, fraction=0.2), folder)
    return folder


def child(parent: Path, **options: Any) -> Recipe:
    return tiny(**{"attention": "hedgehog", "weights": str(parent), "fraction": 0.2, "epochs": 0, **options})


def test_no_epochs_measure_the_converted_model(parent: Path, tmp_path: Path) -> None:
    same = train(child(parent, attention="softmax"), tmp_path / "same")
    before = json.loads((parent / "summary.json").read_text())
    for key in ("test_top1", "val_top1", "test_loss"):
        assert same.summary[key] == pytest.approx(before[key]), key
    other = train(child(parent), tmp_path / "other")
    stages = other.summary["conversion"]["stages"]
    assert [s["stage"] for s in stages] == ["parent", "converted"]
    assert stages[0]["test_top1"] == pytest.approx(before["test_top1"])
    assert stages[1]["test_top1"] == pytest.approx(other.test_top1)
    assert stages[1]["val_top1"] == pytest.approx(other.val_top1)
    assert other.summary["best_epoch"] == other.summary["epochs"] == 0
    assert other.summary["conversion"]["parent"] == str(parent)
    assert len(other.summary["conversion"]["layers"]) == 2
    assert from_pretrained(tmp_path / "other/best").attention_expression() == "hedgehog"


def test_teaching_brings_the_layers_closer_and_is_done_once(parent: Path, tmp_path: Path) -> None:
    seen = Taught()
    recipe = child(parent, distill=30, epochs=1)
    done = train(recipe, tmp_path, resume=True, observer=seen)
    assert (seen.steps, seen.epochs) == (list(range(1, 31)), [1])
    taught = done.summary["conversion"]["stages"][2]
    assert taught["last_error"] < taught["first_error"]
    alone = train(recipe)  # the same without a folder
    assert alone.summary["test_top1"] == done.summary["test_top1"]

    class Stop(Taught):
        def batch_done(self, state: Any, loss: float) -> None:
            raise RuntimeError("power cut")

    again = tmp_path / "again"
    with pytest.raises(RuntimeError, match="power cut"):
        train(recipe, again, resume=True, observer=Stop())
    seen = Taught()
    resumed = train(recipe, again, resume=True, observer=seen)
    assert (seen.steps, seen.epochs) == ([], [1])  # what was taught is kept
    assert resumed.summary["conversion"]["stages"][0] == done.summary["conversion"]["stages"][0]
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), done.model.parameters(), strict=True))


def test_a_recipe_to_start_from_is_trained_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = tiny(attention="softmax", epochs=2)
    linear = tiny(attention="performer(kernel=relu)", weights="some/exact", epochs=1, seed=7)
    monkeypatch.setitem(RECIPES, "some/exact", lambda: exact)
    alone = train(linear, tmp_path / "alone/linear")
    (first,) = [path for path in (tmp_path / "alone").iterdir() if path.name.startswith("some-exact-seed7-")]
    assert alone.summary["conversion"]["parent"] == str(first)
    assert json.loads((first / "recipe.json").read_text())["train"]["epochs"] == 2
    assert train(linear).test_top1 == alone.test_top1  # nowhere to keep the parent

    # beside it, and changed: that one is taken, once a seed
    shorter = replace(exact, train=replace(exact.train, epochs=1, seed=7))
    asked: list[str] = []
    found = compare(
        {"some/linear": linear, "some/exact": shorter},
        tmp_path / "both",
        seeds=2,
        observer=lambda name, *_: (asked.append(name), Observer())[1],
    )
    assert [row.name for row in found.rows] == ["some/linear", "some/exact"]
    assert sorted(path.name.rpartition("-")[0] for path in (tmp_path / "both").iterdir()) == [
        f"some-{kind}-seed{seed}" for kind in ("exact", "linear") for seed in (7, 8)
    ]
    for folder in found.rows[0].folders:
        weights = json.loads((folder / "recipe.json").read_text())["train"]["weights"]
        assert json.loads((Path(weights) / "recipe.json").read_text())["train"]["epochs"] == 1
        assert Path(weights) in [path.resolve() for path in found.rows[1].folders]


def test_the_place_of_the_parent_does_not_change_the_name(parent: Path) -> None:
    from vixformer.results.runs import content

    assert content(child(parent), "d") == content(child(Path("elsewhere") / parent.name), "d")
    assert content(child(parent), "d") != content(child(Path("elsewhere/other")), "d")
