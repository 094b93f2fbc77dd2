"""Schedules and weight decay."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.recipes import tiny
from vixformer import create_model
from vixformer.config import Train
from vixformer.training.optim import layer_scales, learning_rate, make_optimizer, set_rate


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


@pytest.mark.parametrize("name", ["vit", "cct", "levit", "pit", "cvt"])
def test_layer_decay_falls_from_the_head_to_the_stem(name: str) -> None:
    model = create_model(name, img_size=32 if name != "levit" else 64, num_classes=5)
    scales = layer_scales(model, 0.5)
    assert set(scales) == {name for name, _ in model.named_parameters()}
    assert all(scale == 1 for name, scale in scales.items() if name.startswith(("head.", "norm.")))
    blocks = [block for stage in model.stages for block in stage]
    for i, block in enumerate(blocks, 1):
        names = {n for n, p in model.named_parameters() if any(p is q for q in block.parameters())}
        assert {scales[n] for n in names} == {0.5 ** (len(blocks) + 1 - i)}
    first = next(iter(scales.values()))
    assert first == 0.5 ** (len(blocks) + 1)


def test_rates_of_groups_keep_their_ratio() -> None:
    model = tiny().build()
    optimizer = make_optimizer(model, Train(layer_decay=0.5, weight_decay=0.3))
    set_rate(optimizer, 0.1)
    rates = {round(group["lr"], 6) for group in optimizer.param_groups}
    assert rates == {0.1, 0.05, 0.025, 0.0125}
    alone = torch.optim.SGD(model.parameters(), lr=1.0)  # whose groups have no factor
    set_rate(alone, 0.1)
    assert [group["lr"] for group in alone.param_groups] == [0.1]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.3, 0.0}


@pytest.mark.parametrize("schedule", ["cosine", "onecycle"])
def test_rates_stay_at_their_end_and_above_the_least(schedule: Any) -> None:
    train = Train(schedule=schedule, epochs=10, warmup=2.0, lr=0.2)
    assert learning_rate(train, 0.0) == 0.0
    assert learning_rate(train, 12.0) == learning_rate(train, 10.0) < 1e-5
    least = Train(schedule=schedule, epochs=10, warmup=2.0, lr=0.2, min_lr=0.01)
    assert [learning_rate(least, epoch) for epoch in (0.0, 10.0)] == [0.01, 0.01]
    assert learning_rate(Train(schedule=schedule, epochs=2, warmup=2.0, lr=0.2), 2.0) > 0  # all of it is warm-up


@pytest.mark.parametrize(
    ("name", "kind"), [("sgd", torch.optim.SGD), ("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_optimizers_are_torchs_in_one_pass_over_all_weights(name: Any, kind: type) -> None:
    optimizer = make_optimizer(tiny().build(), Train(optimizer=name, momentum=0.7))
    assert type(optimizer) is kind
    for group in optimizer.param_groups:
        assert group["fused"] is True
        assert group.get("momentum", 0.7) == 0.7
