"""The average of the weights: what it is, and that a run keeps, validates, tests and stores it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.support.recipes import tiny
from vixformer.backbones.backbone import from_pretrained
from vixformer.jsonfile import Values
from vixformer.measure.accuracy import evaluate
from vixformer.results.files import read_tensors
from vixformer.training.loop import train
from vixformer.training.observer import Observer, Stopped
from vixformer.training.optim import Average
from vixformer.training.parts import load_parts


def test_it_is_the_average_that_it_says() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = Average(model, 0.9)
    expected = {name: t.clone().double() for name, t in model.state_dict().items()}
    for step in range(1, 200):
        with torch.no_grad():
            for t in (*model.parameters(), *model.buffers()):
                t.copy_(torch.randn_like(t.float()).to(t.dtype))
        average.update(model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        for name, p in model.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * p.detach().double()
    for name, p in model.named_parameters():
        assert torch.allclose(average.weights[name].double(), expected[name], atol=1e-5)
        assert not torch.equal(average.weights[name], p)
    for name, t in model.named_buffers():
        assert torch.equal(average.weights[name], t)
    own = {name: t.clone() for name, t in model.state_dict().items()}
    with average.in_place_of(model):
        assert torch.equal(model.state_dict()["0.weight"], average.weights["0.weight"])
    assert all(torch.equal(t, own[name]) for name, t in model.state_dict().items())


def test_a_run_has_both(tmp_path: Path) -> None:
    recipe = tiny(epochs=3, fraction=0.1, ema=0.9, attention="performer(features=8)", redraw_every=5)
    result = train(recipe, tmp_path)
    assert {"ema_val_top1", "ema_val_loss", "val_top1"} <= set(result.history[0])
    averaged = from_pretrained(tmp_path / "ema")
    scores = evaluate(averaged, load_parts(recipe, torch.device("cpu")).test)
    assert scores.top1 == pytest.approx(result.summary["ema_test_top1"])
    assert scores.loss == pytest.approx(result.summary["ema_test_loss"], rel=1e-4)
    best = max(result.history, key=lambda record: record["ema_val_top1"])
    assert result.summary["ema_best_epoch"] == best["epoch"]
    weights = {name: t for name, t in from_pretrained(tmp_path / "best").state_dict().items() if "weight" in name}
    assert not all(torch.equal(t, averaged.state_dict()[name]) for name, t in weights.items())
    plain = train(tiny(epochs=3, fraction=0.1, attention="performer(features=8)", redraw_every=5))
    assert plain.history[-1]["val_loss"] == result.history[-1]["val_loss"]  # it changes nothing else
    assert train(recipe).summary["ema_test_loss"] == result.summary["ema_test_loss"]  # without a folder too


def test_a_resumed_run_has_the_same_average(tmp_path: Path) -> None:
    recipe = tiny(epochs=2, ema=0.9)
    train(recipe, tmp_path / "whole")

    class Once(Observer):
        def epoch_done(self, record: Values) -> None:
            raise Stopped

    with pytest.raises(Stopped):
        train(recipe, tmp_path / "stopped", observer=Once())
    train(recipe, tmp_path / "stopped", resume=True)
    one, two = (read_tensors(tmp_path / name / "last.safetensors")[0] for name in ("whole", "stopped"))
    assert any(name.startswith("average.") for name in one)
    assert all(torch.equal(t, two[name]) for name, t in one.items())
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("whole", "stopped")]
    assert summaries[0]["ema_test_loss"] == summaries[1]["ema_test_loss"]


def test_it_survives_features_that_are_dropped_at_the_end() -> None:
    attention = "performer(kernel=relu, features=8, gate=60.0)"
    result = train(tiny(attention=attention, lr=1e-2, epochs=1, ema=0.5, fraction=0.06, data={"test_fraction": 0.02}))
    assert result.summary["attention"] != attention
    assert result.summary["ema_test_top1"] > 0
