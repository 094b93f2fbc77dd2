"""The history of a real run, read back with each tool's own reader."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tests.training.test_loop import tiny
from vixformer.config import Train
from vixformer.training.loggers import Logger, numbers
from vixformer.training.loop import train

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")  # of the tools


def trained(folder: Path, word: str) -> list[dict[str, Any]]:
    return train(tiny(loggers=(word,)), folder).history


def test_every_word_of_the_recipe_is_a_logger() -> None:
    assert set(get_args(get_args(get_type_hints(Train)["loggers"])[0])) == set(Logger.members)


def test_csv(tmp_path: Path) -> None:
    history = trained(tmp_path, "csv")
    rows = list(csv.DictReader((tmp_path / "history.csv").open()))
    assert [{key: float(value) for key, value in row.items()} for row in rows] == history


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    history = trained(tmp_path, "tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("val_top1")] == [(r["epoch"], pytest.approx(r["val_top1"])) for r in history]


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
    values = client.get_metric_history(run.info.run_id, "train_loss")
    assert [(m.step, m.value) for m in values] == [(r["epoch"], r["train_loss"]) for r in history]


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    trained(tmp_path, "wandb")
    (stored,) = tmp_path.rglob("*.wandb")
    patience = time.monotonic() + 60  # a process of its own writes it, and on a busy machine after finish() has come back
    while b"train_loss" not in stored.read_bytes():
        assert time.monotonic() < patience
        time.sleep(0.1)


def test_a_logger_that_is_not_installed_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(ValueError, match=r"the logger wandb is not installed: pip install \"vixformer\[wandb\]\""):
        trained(tmp_path, "wandb")
    with pytest.raises(ValueError, match="need a run folder"):
        train(tiny(loggers=("csv",)))


def test_numbers() -> None:
    assert numbers({"a": 1, "b": 2.5, "c": "x", "d": [1], "e": True}) == {"a": 1, "b": 2.5}
    assert json.dumps(numbers({"a": None})) == "{}"
