"""The history of a real run, read back with each tool's own reader."""

from __future__ import annotations

import csv
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tests.support.recipes import tiny
from vixformer.config import LOGGERS, recipe_from_dict
from vixformer.data.loader import Augmentation
from vixformer.training.loggers import Logger, confusion_picture, numbers, side_by_side
from vixformer.training.loop import train
from vixformer.training.parts import load_parts

# of the tools
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def trained(folder: Path, word: str) -> list[dict[str, Any]]:
    return train(tiny(loggers=(word,)), folder).history


def test_every_word_of_the_recipe_is_a_logger() -> None:
    assert set(LOGGERS) == set(Logger.members)
    with pytest.raises(ValueError, match="loggers must be csv or mlflow or tensorboard or wandb, not 'paper'"):
        recipe_from_dict({"train": {"loggers": ["paper"]}}, "mine")


def test_csv(tmp_path: Path) -> None:
    history = trained(tmp_path, "csv")
    rows = list(csv.DictReader((tmp_path / "history.csv").open()))
    assert [{key: float(value) for key, value in row.items()} for row in rows] == history


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    history = trained(tmp_path, "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert '"num_classes": 10' in events.Tensors("recipe/text_summary")[0].tensor_proto.string_val[0].decode()
    pictures = {name: events.Images(name)[0] for name in ("training images", "confusion")}
    assert (pictures["training images"].width, pictures["training images"].height) == (4 * 28, 4 * 28)
    assert (pictures["confusion"].width, pictures["confusion"].height) == (300, 300)
    assert [(e.step, e.value) for e in events.Scalars("val_top1")] == [
        (r["epoch"], pytest.approx(r["val_top1"])) for r in history
    ]


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    history = trained(tmp_path / "run", "mlflow")
    import mlflow

    client = mlflow.MlflowClient((tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("vixformer")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.params["train.lr"] == "0.003"
    assert run.info.status == "FINISHED"
    place = Path(str(run.info.artifact_uri).removeprefix("file://"))
    assert json.loads((place / "recipe.json").read_text())["model"]["num_classes"] == 10
    assert len(json.loads((place / "confusion.json").read_text())["confusion"]) == 10
    for name in ("training-images.png", "confusion.png"):
        assert Image.open(place / name).mode == "RGB"
    values = client.get_metric_history(run.info.run_id, "train_loss")
    assert [(m.step, m.value) for m in values] == [(r["epoch"], r["train_loss"]) for r in history]


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    trained(tmp_path, "wandb")
    (stored,) = tmp_path.rglob("*.wandb")
    # a process of its own writes it, and on a busy machine after finish() has come back
    patience = time.monotonic() + 60
    while b"train_loss" not in stored.read_bytes():
        assert time.monotonic() < patience
        time.sleep(0.1)


def test_a_logger_that_is_not_installed_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(ValueError, match=r"the logger wandb is not installed: pip install \"vixformer\[wandb\]\""):
        trained(tmp_path, "wandb")
    with pytest.raises(ValueError, match="need a run folder"):
        train(tiny(loggers=("csv",)))


def test_pictures_of_a_run() -> None:
    loader = load_parts(tiny(), torch.device("cpu")).train
    plain = side_by_side(replace(loader, augmentation=Augmentation()), 3)
    index = torch.randperm(len(loader.images), generator=torch.Generator().manual_seed(3))[:16]
    stored = loader.images.pixels[loader.images.rows[index]]
    for i in range(16):
        row, column = divmod(i, 4)
        mine = plain[28 * row : 28 * row + 28, 28 * column : 28 * column + 28]
        assert abs(mine.astype(int) - stored[i, 0].unsqueeze(2).numpy().astype(int)).max() <= 1
    assert not (side_by_side(loader, 3) == plain).all()
    confusion = confusion_picture({"confusion": [[9, 1], [0, 0]]})
    assert confusion.shape == (300, 300, 3)
    assert confusion[0, 0].sum() < confusion[0, 299].sum() < confusion[299, 0].sum()


def test_numbers() -> None:
    assert numbers({"a": 1, "b": 2.5, "c": "x", "d": [1], "e": True}) == {"a": 1, "b": 2.5}
    assert json.dumps(numbers({"a": None})) == "{}"
