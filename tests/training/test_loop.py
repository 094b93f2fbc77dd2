"""The loop on real images of the package, small and short; and a life of being killed."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from vixformer.backbones.backbone import from_pretrained
from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train, read_recipe
from vixformer.measure.accuracy import evaluate
from vixformer.results.files import read_tensors, write_tensors
from vixformer.training import loop
from vixformer.training.faults import NotFiniteError
from vixformer.training.lock import LOCK
from vixformer.training.loop import train
from vixformer.training.observer import Observer
from vixformer.training.optim import learning_rate, make_optimizer
from vixformer.training.parts import load_parts
from vixformer.training.state import State
from vixformer.writing import PART


def tiny(**options: Any) -> Recipe:
    model = ViT.Config(
        attention=options.pop("attention", "first(performer(kernel=relu, features=8))"), patch_size=7, embed_dim=16, depth=2, num_heads=2
    )
    data = Data(fraction=options.pop("fraction", 0.05), crop=2, flip=True, rotate=5.0, **options.pop("data", {}))
    return Recipe(data=data, model=model, train=Train(**{"epochs": 2, "batch_size": 32, "lr": 3e-3, "measure": False, **options}))


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
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best", "history.jsonl", "last.safetensors", "recipe.json", "summary.json"]
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
    assert all(torch.equal(x, y) for x, y in zip(a.model.state_dict().values(), b.model.state_dict().values(), strict=True))
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
        dict(attention="softmax(drop=0.2)", loss="focal", class_weights=(1.0,) * 9 + (2.0,), data={"interpolation": "nearest"}),
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
    with pytest.raises(ValueError, match=r"train.class_weights has 2 weights and the data 10 classes: give one weight per class"):
        train(tiny(class_weights=(1.0, 2.0)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_features_that_are_not_worth_their_price_are_gone(tmp_path: Path) -> None:
    recipe = tiny(attention="performer(kernel=relu, features=32, gate=10.0) + softmax", lr=1e-2, epochs=4, data={"val_fraction": 0.0})
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


def test_a_loss_that_is_not_finite_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = loop._Run._step

    def poisoned(self: Any, images: torch.Tensor, labels: torch.Tensor, rate: float) -> float:
        if self.state.epoch == 1 and self.state.batch == 3 and self.state.rate_factor == 1.0:
            self.state.model.blocks[1].mlp.fc1.weight.data.fill_(1e38)
        return original(self, images, labels, rate)

    monkeypatch.setattr(loop._Run, "_step", poisoned)
    with pytest.raises(
        NotFiniteError, match=r"in epoch 2, batch 4, at the rate .* first in the layer blocks.1.mlp.fc1 \(Linear\)"
    ) as caught:
        train(tiny(), tmp_path)
    assert "last.safetensors" in str(caught.value)
    assert read_tensors(tmp_path / "last.safetensors")[1]["epoch"] == 1
    result = train(tiny(on_nan="back"))
    assert len(result.history) == 2


@pytest.mark.parametrize(
    ("schedule", "at", "expected"),
    [
        ("constant", 7.3, 1.0),
        ("step", 4.99, 1.0),
        ("step", 5.0, 0.5),
        ("step", 10.2, 0.25),
        ("cosine", 0.0, 1.0),
        ("cosine", 10.0, 0.5),
        ("cosine", 20.0, 0.0),
        ("restarts", 4.0, 0.5),
        ("restarts", 8.0, 1.0),
        ("doubling", 4.0, 0.5),
        ("doubling", 8.0, 1.0),
        ("doubling", 16.0, 0.5),
        ("doubling", 24.0, 1.0),
        ("doubling", 40.0, 0.5),
        ("onecycle", 0.0, 1 / 25),
        ("onecycle", 6.0, 1.0),
        ("onecycle", 20.0, 1 / 25e4),
    ],
)
def test_schedules(schedule: str, at: float, expected: float) -> None:
    options: Any = dict(schedule=schedule, epochs=20, lr=0.2, restart_every=8)
    if schedule == "doubling":
        options |= dict(schedule="restarts", epochs=56, restart_growth=2)
    assert learning_rate(Train(**options), at) == pytest.approx(0.2 * expected, abs=1e-9)
    if schedule != "step":
        warm = Train(**{**options, "warmup": 2.0, "epochs": options["epochs"] + 2})
        assert learning_rate(warm, 1.0) == pytest.approx(0.1)
        assert learning_rate(warm, at + 2) == pytest.approx(0.2 * expected, abs=1e-9)


def test_weight_decay_spares_what_the_model_says() -> None:
    model = tiny().build()
    decayed, spared = make_optimizer(model, Train(weight_decay=0.3)).param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.3, 0.0)
    assert len(decayed["params"]) + len(spared["params"]) == len(list(model.parameters()))
    assert all(p.dim() > 1 for p in decayed["params"])
    decayed, spared = make_optimizer(model, Train(weight_decay=0.3, decays="all")).param_groups
    assert (len(decayed["params"]), spared["params"]) == (len(list(model.parameters())), [])


RUN = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from vixformer.config import read_recipe
from vixformer.training import loop
loop.CHECKPOINT_SECONDS = 0.05
loop.train(read_recipe(sys.argv[1]), sys.argv[2], resume=True)
"""


def start(recipe: Path, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN, str(recipe), str(folder)], stderr=subprocess.PIPE)


def killed_until_done(recipe: Path, folder: Path, kills: int, seconds: float) -> None:
    rng = random.Random(kills)
    completed = 0
    for _ in range(kills):
        process = start(recipe, folder)
        time.sleep(rng.uniform(0.3, 1.0) * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        history = folder / "history.jsonl"
        now = len(history.read_text().splitlines()) if history.exists() else 0
        assert now >= completed  # no completed epoch is lost
        completed = now
    train(read_recipe(recipe), folder, resume=True)


def same_weights(a: Path, b: Path) -> None:
    ours, theirs = (read_tensors(folder / "last.safetensors")[0] for folder in (a, b))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name
    assert not [p for p in b.rglob("*") if p.name.endswith(".part")]


def one_killed_life(tmp_path: Path, kills: int, seconds: float, epochs: int) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(tiny(epochs=epochs, fraction=0.1, redraw_every=7, attention="performer(features=8)").to_json())
    train(read_recipe(recipe), tmp_path / "whole")
    killed_until_done(recipe, tmp_path / "killed", kills, seconds)
    same_weights(tmp_path / "whole", tmp_path / "killed")
    assert history_of(tmp_path / "whole") == history_of(tmp_path / "killed")


def history_of(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records]


def test_killed_and_resumed_it_is_the_same(tmp_path: Path) -> None:
    one_killed_life(tmp_path, kills=2, seconds=6.0, epochs=4)


def test_ctrl_c_saves_at_the_end_of_a_step_and_can_be_resumed(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(tiny(epochs=3, fraction=0.1).to_json())
    train(read_recipe(recipe), tmp_path / "whole")
    process = start(recipe, tmp_path / "cut")
    while not (tmp_path / "cut" / "last.safetensors").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=300)
    assert b"KeyboardInterrupt" in complaint
    killed_until_done(recipe, tmp_path / "cut", 0, 0.0)
    same_weights(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    one_killed_life(tmp_path, kills=30, seconds=6.0, epochs=12)


@pytest.mark.slow
def test_a_disk_that_fills_up_during_training_costs_nothing_that_was_there(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(tiny(epochs=4, fraction=0.1).to_json())
    train(read_recipe(recipe), tmp_path / "whole")
    folder = tmp_path / "cut"
    process = start(recipe, folder)
    while not (folder / "last.safetensors").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != LOCK and p.suffix != PART}
    full = f"ulimit -f 8; exec {sys.executable} -m vixformer train --resume {folder}"  # blocks of 1 KiB; a checkpoint is larger
    done = subprocess.run(["bash", "-c", full], capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "is kept" in done.stderr
    assert "Traceback" not in done.stderr
    assert {p for p in folder.rglob("*") if p.is_file()} == set(before)
    assert (folder / "last.safetensors").read_bytes() == before[folder / "last.safetensors"]
    killed_until_done(recipe, folder, 0, 0.0)
    same_weights(tmp_path / "whole", folder)


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(tiny(epochs=1), tmp_path)
    (tmp_path / "summary.json").unlink()
    with pytest.raises(ValueError, match="does not fit this recipe"):
        train(replace(tiny(), model=replace(tiny().model, depth=3)), tmp_path, resume=True)  # pyright: ignore[reportCallIssue]
    data = (tmp_path / "last.safetensors").read_bytes()
    (tmp_path / "last.safetensors").write_bytes(data[:-100])
    with pytest.raises(ValueError, match="missing, damaged or cut short"):
        train(tiny(), tmp_path, resume=True)


def test_a_checkpoint_whose_history_is_damaged_is_refused(tmp_path: Path) -> None:
    """Resuming compares every epoch with the others: a TypeError or KeyError, after the next epoch was trained."""
    train(tiny(epochs=1), tmp_path)
    (tmp_path / "summary.json").unlink()
    tensors, note = read_tensors(tmp_path / "last.safetensors")
    for value, sentence in (("90", "0.val_top1 should be a valid number"), ([1.0], "should be a valid number"), (None, "has no val_top1")):
        damaged = copy.deepcopy(note)
        damaged["history"][0]["val_top1"] = value
        if value is None:
            del damaged["history"][0]["val_top1"]
        write_tensors(tmp_path / "last.safetensors", tensors, damaged)
        with pytest.raises(ValueError, match=rf"last.safetensors is damaged: .*{sentence}"):
            train(tiny(epochs=2), tmp_path, resume=True)


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
        ValueError, match=r"no block of .*, a vit, fits this vit: weights carry over between models of the same kind and width"
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
        every: train(replace(recipe, train=replace(recipe.train, redraw_every=every))).summary["test_loss"] for every in (steps, steps // 2)
    }
    assert top1[steps] == never.summary["test_loss"]
    assert top1[steps // 2] != never.summary["test_loss"]
