"""The page of augmentations."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.kept import invented, ran
from tools.pages import ablation
from tools.runs import Kept

PLAIN, MIXED = (f"ablation/cifar10/{name}" for name in ("plain", "mixup"))


def trained(name: str, seed: int, top1: float, averaged: float) -> Kept:
    """Validation is 2 points below the test images, but for the averaged weights, which are 1 below."""
    run = invented(name, top1, seed)
    chosen = {"best_epoch": 2, "ema_best_epoch": 3, "ema_test_top1": averaged}
    history = [record | {"val_top1": 0.0, "ema_val_top1": 0.0} for record in run.history]
    history[1]["val_top1"], history[2]["ema_val_top1"] = top1 - 2, averaged - 1
    return dataclasses.replace(run, summary=run.summary | chosen, history=history)


def test_nothing_has_run(no_runs: pytest.MonkeyPatch) -> None:
    assert ablation.page().endswith(
        "No recipe has results yet. To train all of them, run `vix compare 'ablation/cifar10/*' --seeds 3`."
    )


def test_validation_picks_a_row(no_runs: pytest.MonkeyPatch) -> None:
    ran(no_runs, PLAIN, *(trained(PLAIN, seed, 60 + seed, 61 + seed) for seed in range(3)))
    ran(no_runs, MIXED, *(trained(MIXED, seed, 63.5 + seed + seed % 2 / 10, 62 + seed) for seed in range(3)))
    page = ablation.page()
    plain, mixed = (line for line in page.splitlines() if line.startswith("| `"))
    assert plain.startswith(
        f"| `{PLAIN}` | 3 | 59.00 ± 1.00 | 61.00 ± 1.00 |  |  | 61.00 ± 1.00 | 62.00 ± 1.00 | +1.00"
    )
    assert "| +3.53 ± " in mixed
    assert mixed.count("shown") == 2
    assert f"Validation picks `{MIXED}`: 62.53 ± 1.00 % of the validation images, 64.53 ± 1.00 % of the test" in page
    assert "The difference to the weights of `plain` is +3.53 ± " in page
    ran(no_runs, PLAIN, *(trained(PLAIN, seed, 60 + seed, 66 + seed) for seed in range(3)))
    assert f"Validation picks `{PLAIN}` with averaged weights: 66.00 ± 1.00 %" in ablation.page()
