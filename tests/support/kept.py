"""Runs and times that nobody measured."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tools.pages import tables
from tools.runs import Kept
from vixformer import load_recipe

EXACT, RELU, SOFTMAX = (f"hybrid/mnist/{row}" for row in ("all-standard", "all-relu-16", "all-softmax-16"))

TIMES = {
    EXACT: [10.0, 10.4, 9.8, 10.1, 10.2, 9.9],
    RELU: [11.1, 11.2, 10.9, 11.3, 11.0, 11.1],
    SOFTMAX: [20.3, 20.9, 19.9, 20.2, 20.1, 20.0],
}
"""Milliseconds."""


def invented(
    name: str,
    top1: float,
    seed: int = 0,
    epochs: int = 3,
    images: int = 9_000,
    test: float | None = None,
    **changes: Any,
) -> Kept:
    """A run of a recipe, with another value of some fields of `train`."""
    recipe = json.loads(json.dumps(load_recipe(name).to_dict(whole=True)))
    recipe["train"] |= {"epochs": epochs, "seed": seed, **changes}
    scores = {"precision": 0.5, "recall": 0.25, "f1-score": 1 / 3, "support": 10.0}
    summary: dict[str, Any] = {
        "machine": {"device": "cpu", "processor": "x", "threads": 2, "torch": "2"},
        "test_top1": top1,
        "seed": seed,
    }
    summary |= {
        "per_class": {"a": scores, "b": scores, "accuracy": scores},
        "train_images": images,
        "test_images": 10_000,
        "epochs": epochs,
    }
    history: list[dict[str, Any]] = [{"epoch": i + 1, "val_top1": top1, "train_top1": top1 + i} for i in range(epochs)]
    if test is not None:
        summary |= {"test_max_top1": test, "test_last_top1": test - 1}
        history = [record | {"test_loss": 0.5, "test_top1": test} for record in history]
    return Kept(recipe, summary, history, tuple(f"train.{field}" for field in changes))


def ran(patch: pytest.MonkeyPatch, name: str, *runs: Kept) -> None:
    patch.setitem(tables.EVERY, name, list(runs))
    patch.setitem(tables.RUNS, name, list(runs))


def clocked(patch: pytest.MonkeyPatch, name: str, calls: list[float], kept: bool = True, **more: Any) -> None:
    mean, middle = sum(calls) / len(calls), sorted(calls)[len(calls) // 2]
    sd = math.sqrt(sum((call - mean) ** 2 for call in calls) / (len(calls) - 1))
    timing: dict[str, Any] = {
        "batch": 16,
        "session": "a",
        "machine": {"device": "cpu", "processor": "x", "threads": 1, "torch": "2"},
    }
    for what in ("step", "inference"):
        timing[f"{what}_ms"] = {"median": middle, "mean": mean, "sd": sd, "min": min(calls), "count": len(calls)}
        timing |= {f"{what}_calls": calls} if kept else {}
    patch.setitem(tables.TIMES, name, timing | more)
