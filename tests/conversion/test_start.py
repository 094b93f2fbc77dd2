"""Runs that start from others: converted, taught, or with what fits."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.models import small_vit
from tests.support.recipes import tiny
from vixformer import from_pretrained
from vixformer.config import Recipe
from vixformer.conversion.start import _taken
from vixformer.experiments.compare import compare
from vixformer.recipes.catalog import RECIPES
from vixformer.training.loop import train
from vixformer.training.observer import Observer


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
    spent = sum(stage.get("seconds", 0.0) for stage in done.summary["conversion"]["stages"])
    assert done.summary["train_seconds"] == pytest.approx(spent + done.history[0]["seconds"])
    assert done.summary["seconds_an_epoch"] == done.history[0]["seconds"]
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
    assert sorted(path.name.rpartition("-")[0] for path in (tmp_path / "both").iterdir() if path.is_dir()) == [
        f"some-{kind}-seed{seed}" for kind in ("exact", "linear") for seed in (7, 8)
    ]
    for folder in found.rows[0].folders:
        weights = json.loads((folder / "recipe.json").read_text())["train"]["weights"]
        assert json.loads((Path(weights) / "recipe.json").read_text())["train"]["epochs"] == 1
        assert Path(weights) in [path.resolve() for path in found.rows[1].folders]


def test_the_place_of_the_parent_does_not_change_the_name(parent: Path, tmp_path: Path) -> None:
    from vixformer.results.runs import content

    run = parent.parent / "exact-seed0-0123456789ab"  # a finished run's name says what is in it
    shutil.copytree(parent, run)
    assert content(child(run), "d") == content(child(Path("elsewhere") / run.name), "d")
    assert content(child(run), "d") != content(child(Path("elsewhere/exact-seed1-0123456789ab")), "d")
    (run / "summary.json").unlink()  # not finished: its weights may change, and so they count
    assert content(child(run), "d") == content(child(parent / "best"), "d")
    other = tmp_path / "best"
    model = from_pretrained(parent / "best")
    torch.nn.init.zeros_(next(model.parameters()))
    model.save_pretrained(other)
    assert content(child(other), "d") != content(child(parent / "best"), "d")


def test_fine_tuning_that_hurts_is_not_kept(parent: Path) -> None:
    same = train(child(parent, attention="softmax", epochs=1, lr=0.5))
    stage = same.summary["conversion"]["stages"][-1]
    assert same.summary["best_epoch"] == 0
    assert (same.summary["val_top1"], same.test_top1) == pytest.approx((stage["val_top1"], stage["test_top1"]))


@pytest.mark.parametrize(("depth", "fresh", "more"), [(2, 6, ""), (3, 8, ""), (6, 14, " and 6 more")])
def test_weights_that_stay_fresh_are_named_up_to_eight(depth: int, fresh: int, more: str) -> None:
    """Two a layer of Hedgehog's own, and a classifier of other classes."""
    given = small_vit(depth=depth)
    model = small_vit(depth=depth, attention="hedgehog", num_classes=7)
    names = [name for name in model.state_dict() if "core.weight" in name or name.startswith("head.")]
    assert len(names) == fresh
    kept = len(model.state_dict()) - fresh
    listed = ", ".join(sorted(names)[:8])
    said = _taken(model, given, tiny(weights="there"))
    assert said == f"{kept} of {kept + fresh} weight tensors come from there; untrained: {listed}{more}"
    assert _taken(small_vit(), small_vit(), tiny(weights="there")).endswith(" weight tensors come from there")


def test_dropout_is_not_what_weights_depend_on(parent: Path) -> None:
    recipe = child(parent)
    other = train(replace(recipe, model=replace(recipe.model, drop_rate=0.3)))  # pyright: ignore[reportCallIssue]
    assert other.summary["conversion"]["stages"][1]["stage"] == "converted"
    assert other.model.config.drop_rate == 0.3
    wider = replace(recipe, model=replace(recipe.model, depth=3), train=replace(recipe.train, distill=3))  # pyright: ignore[reportCallIssue]
    with pytest.raises(
        ValueError, match="differs from this model in more than its attention: depth is 2 there and 3 here"
    ):
        train(wider)


def test_an_interrupted_lesson_goes_on(parent: Path, tmp_path: Path) -> None:
    recipe = child(parent, distill=12)
    whole = train(recipe)

    class Stop(Taught):
        def taught(self, step: int, steps: int, error: float) -> None:
            if step == 5:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", resume=True, observer=Stop())
    seen = Taught()
    done = train(recipe, tmp_path / "run", resume=True, observer=seen)
    assert seen.steps == list(range(6, 13))
    assert all(torch.equal(a, b) for a, b in zip(done.model.parameters(), whole.model.parameters(), strict=True))
    assert not (tmp_path / "run/teaching.safetensors").exists()


def test_refusals_leave_nothing(parent: Path, tmp_path: Path) -> None:
    def model(**options: Any) -> Recipe:
        return replace(child(parent), model=replace(child(parent).model, **options))

    cases = {
        "unknown recipe .*; did you mean .quick/exact": child(Path("quick/exakt")),
        "train.weights: .* must be a run or a model's folder": child(tmp_path),
        "no block of .*, a vit, fits this vit: .*embed_dim is": model(embed_dim=48, num_heads=3),
        "has .* heads and this model .*, which do not fit": replace(
            model(num_heads=1), train=replace(child(parent).train, distill=0)
        ),
        "train.distill: .* differs from this model in more than its attention": replace(
            model(depth=3), train=replace(child(parent).train, distill=3)
        ),
        "layer 0 cannot go from softmax to fourier": model(attention="fourier"),
        "the model has 3 classes and fashion-mini 10": model(num_classes=3),
        "the model is for images of 3 channels and fashion-mini has 1": model(in_chans=3),
        "the model is for images of 56 x 56 and fashion-mini has 28 x 28: set data.resize=56": model(img_size=56),
    }
    for message, recipe in cases.items():
        with pytest.raises(ValueError, match=message):
            train(recipe, tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_at_a_higher_resolution_positions_are_interpolated(parent: Path, tmp_path: Path) -> None:
    notes: list[str] = []

    class Heard(Observer):
        def begins_with(self, what: str) -> None:
            notes.append(what)

    result = train(child(parent, attention="softmax", data={"resize": 56}), observer=Heard())
    given, images = from_pretrained(parent), torch.randn(3, 1, 56, 56)
    assert result.model.pos.embed.shape == (1, 65, 16)
    assert torch.allclose(result.model.eval()(images), given(images), atol=1e-5)
    assert "interpolated for another number of tokens: pos.embed" in notes[0]
    recipe = child(parent, attention="softmax", data={"resize": 56}, epochs=1, checkpoint=True, layer_decay=0.75)
    assert train(recipe, tmp_path).history[0]["train_loss"] > 0
