"""The loop on real images of the package, small and short."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.recipes import tiny
from vixformer.backbones.backbone import from_pretrained
from vixformer.measure.accuracy import evaluate
from vixformer.training.loop import run, train
from vixformer.training.observer import Observer
from vixformer.training.parts import load_parts
from vixformer.training.state import State


def test_it_learns_and_says_what_it_did(tmp_path: Path) -> None:
    result = train(tiny(epochs=4, fraction=0.2, track_test=True), tmp_path)
    assert result.history[-1]["train_loss"] < result.history[0]["train_loss"]
    assert result.test_top1 > 40
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary == result.summary
    best = max(result.history, key=lambda r: r["val_top1"])
    assert summary["val_top1"] == best["val_top1"]
    assert summary["test_last_top1"] == result.history[-1]["test_top1"]
    assert summary["test_max_top1"] == max(r["test_top1"] for r in result.history)
    assert sum(map(sum, summary["confusion"])) == 2000
    assert set(summary["per_class"]) >= {"Sneaker", "Bag", "macro avg"}
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "best",
        "history.jsonl",
        "last.safetensors",
        "recipe.json",
        "summary.json",
    ]
    assert not result.model.training
    parts = load_parts(result.recipe, torch.device("cpu"))
    assert evaluate(result.model, parts.test).top1 == pytest.approx(summary["test_top1"])


def test_what_python_callers_get_wrong_is_a_sentence_too() -> None:
    with pytest.raises(ValueError, match=r"epochs = 0 leaves the model untrained: give weights"):
        train(tiny(epochs=0))
    with pytest.raises(ValueError, match=r"distill has nothing to learn from: give weights"):
        train(tiny(distill=5))
    with pytest.raises(ValueError, match=r"train.device nowhere cannot be used here"):
        train(tiny(device="nowhere"))


def test_files_of_a_run_are_for_whom_new_files_are(tmp_path: Path) -> None:
    train(tiny(epochs=1), tmp_path)
    assert len({path.stat().st_mode for path in tmp_path.rglob("*") if path.is_file()}) == 1


def test_the_same_seed_gives_the_same_weights() -> None:
    a, b, c = (train(tiny(epochs=1, seed=seed)) for seed in (0, 0, 1))
    assert all(
        torch.equal(x, y) for x, y in zip(a.model.state_dict().values(), b.model.state_dict().values(), strict=True)
    )
    assert not torch.equal(a.model.head.weight, c.model.head.weight)


@pytest.mark.parametrize(
    "options",
    [
        dict(optimizer="adam", schedule="step"),
        dict(optimizer="sgd", schedule="restarts", restart_every=1),
        dict(schedule="onecycle", clip=1.0),
        dict(schedule="constant", warmup=1.0, label_smoothing=0.1, class_weights=True),
        dict(accumulate=3, precision="bfloat16"),
        dict(precision="float16"),
        dict(redraw_every=5),
        dict(attention="performer(kernel=mixture)"),
        dict(data={"folds": 3, "fold": 2}),
        dict(data={"val_fraction": 0.0}),
        dict(data={"resize": 35}),
        dict(data={"test_fraction": 0.25}),
        dict(
            attention="softmax(drop=0.2)",
            loss="focal",
            class_weights=(1.0,) * 9 + (2.0,),
            data={"interpolation": "nearest"},
        ),
    ],
)
def test_every_option_trains(options: dict[str, Any]) -> None:
    result = train(tiny(**options))
    assert len(result.history) == 2
    assert all(torch.isfinite(p).all() for p in result.model.parameters())
    if "mixture" in options.get("attention", ""):
        assert "blocks.0.attn.core.kernel.mixture" in result.history[0]
    assert result.summary["test_images"] == (500 if options.get("data") == {"test_fraction": 0.25} else 2000)
    if options.get("data") == {"val_fraction": 0.0}:
        assert result.summary["best_epoch"] == 2
        assert result.val_top1 is None


@pytest.mark.parametrize("options", [dict(clip=1e-3), dict(label_smoothing=0.3), dict(accumulate=3)])
def test_an_option_of_the_step_is_not_ignored(options: dict[str, Any]) -> None:
    def path(**more: Any) -> list[torch.Tensor]:
        seen: list[torch.Tensor] = []

        class Look(Observer):
            def batch_done(self, state: State, loss: float) -> None:
                seen.append(state.model.get_parameter("head.weight").detach().clone())

        train(tiny(epochs=1, optimizer="sgd", lr=0.1, fraction=0.03, **more), observer=Look())
        return seen

    plain, other = path(), path(**options)
    assert not torch.equal(plain[-1], other[-1])
    if "clip" in options:  # steps of sgd are as long as the gradient
        assert (other[-1] - other[0]).norm() < 0.1 * (plain[-1] - plain[0]).norm()
    if "accumulate" in options:
        assert torch.equal(other[0], other[1])


def test_weights_a_class_are_as_many_as_classes(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"train.class_weights has 2 weights and the data 10 classes: give one weight per class"
    ):
        train(tiny(class_weights=(1.0, 2.0)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_features_that_are_not_worth_their_price_are_gone(tmp_path: Path) -> None:
    recipe = tiny(
        attention="performer(kernel=relu, features=32, gate=10.0) + softmax",
        lr=1e-2,
        epochs=4,
        data={"val_fraction": 0.0},
    )
    result = train(recipe, tmp_path)
    (left,) = {p.shape[0] for name, p in result.model.named_parameters() if name.endswith("gate")}
    assert 1 <= left < 32
    assert result.summary["attention"] == f"performer(kernel=relu, features={left}, gate=10.0) + softmax"
    assert from_pretrained(tmp_path).attention_expression() == result.summary["attention"]
    (tmp_path / "summary.json").unlink()
    assert train(recipe, tmp_path, resume=True).summary["test_loss"] == result.summary["test_loss"]


def test_early_stopping_counts_from_the_best_epoch() -> None:
    result = train(tiny(epochs=30, lr=1e-12, patience=2, monitor="val_top1"))
    assert len(result.history) <= 6
    assert len(result.history) - result.summary["best_epoch"] == 2
    assert result.summary["stopped_early"]
    assert result.summary["monitor"] == "val_top1"


def test_a_batch_larger_than_the_set() -> None:
    with pytest.raises(ValueError, match=r"train.batch_size is 9999 and there are only 450 images"):
        train(tiny(batch_size=9999))
    with pytest.raises(ValueError, match=r"data.mean has 3 values and the images 1 channels"):
        train(tiny(data={"mean": (0.1, 0.2, 0.3), "std": (1.0,)}))


@pytest.mark.skipif("VIX_DATA" not in os.environ, reason="the real files are not here: set VIX_DATA")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "attention", "least"),
    [
        ("mnist", "softmax", 95),
        ("mnist", "first(performer(kernel=relu, features=64))", 95),
        ("cifar10", "softmax", 42),
        ("cifar10", "first(performer(kernel=relu, features=64))", 42),
    ],
)
def test_two_epochs_of_the_hybrid_recipes(data: str, attention: str, least: float) -> None:
    """With positions that start as they do here: those of the public code are learned more slowly."""
    from vixformer.recipes.hybrid import small

    recipe = small(data, attention)
    assert train(replace(recipe, train=replace(recipe.train, epochs=2, track_test=False))).test_top1 >= least


def test_start_from_a_trained_model(tmp_path: Path) -> None:
    first = train(tiny(attention="softmax"), out=tmp_path / "first")
    begun: list[dict[str, torch.Tensor]] = []

    class Look(Observer):
        def batch_done(self, state: State, loss: float) -> None:
            begun.append({name: p.detach().clone() for name, p in state.model.named_parameters()})

    recipe = tiny(attention="performer(kernel=relu, features=8)", weights=str(tmp_path / "first"), lr=1e-9, epochs=1)
    train(recipe, observer=Look())
    for name, p in first.model.named_parameters():  # projections, MLPs, positions and head: all but the attention's own
        assert torch.allclose(begun[0][name], p, atol=1e-5), name
    with pytest.raises(ValueError, match=r"this recipe starts from a trained model: give --train.weights FOLDER"):
        train(tiny(weights="PATH"))
    other = tiny(weights=str(tmp_path / "first"))
    with pytest.raises(
        ValueError,
        match=r"no block of .*, a vit, fits this vit: weights carry over between models of the same kind and width",
    ):
        train(
            replace(
                other,
                model=replace(other.model, embed_dim=8),  # pyright: ignore[reportCallIssue]
            )
        )


def test_no_new_features_at_the_very_end() -> None:
    recipe = tiny(attention="performer(features=8)", epochs=2, fraction=0.1, redraw_every=None)
    never = train(recipe)
    steps = 2 * len(load_parts(recipe, torch.device("cpu")).train)
    top1 = {
        every: train(replace(recipe, train=replace(recipe.train, redraw_every=every))).summary["test_loss"]
        for every in (steps, steps // 2)
    }
    assert top1[steps] == never.summary["test_loss"]
    assert top1[steps // 2] != never.summary["test_loss"]


def test_a_time_limit_ends_training_with_a_low_rate() -> None:
    recipe = tiny(epochs=1000, fraction=0.1, schedule="onecycle")
    result = run(recipe, None, seconds=1.0)
    assert 1 <= len(result.history) < 1000
    assert result.summary["stopped_early"]
    assert result.history[-1]["lr"] < 0.2 * recipe.train.lr
    assert run(replace(recipe, train=replace(recipe.train, epochs=2)), None, seconds=600.0).summary["epochs"] == 2
