"""What a summary says about cost is what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support.recipes import tiny
from vixformer import create_model
from vixformer.measure.cost import torchsummary_bytes, weight_bytes
from vixformer.measure.latency import interleaved
from vixformer.measure.memory import Job, peak_memory
from vixformer.training.loop import train


def test_a_summary_has_every_cost(tmp_path: Path) -> None:
    recipe = tiny(measure=True, epochs=1)
    summary = train(recipe, tmp_path).summary
    assert summary == json.loads((tmp_path / "summary.json").read_text())
    assert summary["inference_batch"] == 32
    assert summary["inference_calls"] >= 10
    assert 0 < summary["inference_ms_min"] <= summary["inference_ms_mean"]
    assert summary["peak_train_mb"] > summary["peak_inference_mb"] > 0
    assert 30 < summary["resource_used"] < 300
    assert summary["seconds_in_all"] > summary["train_seconds"] > 0
    assert summary["ms_a_step"] == pytest.approx(1e3 * summary["train_seconds"] / 15)
    assert summary["test_seconds"] > 0
    stored = (tmp_path / "best" / "model.safetensors").stat().st_size / 2**20
    assert summary["size_mb"] == pytest.approx(stored, rel=0.2)  # a header beside few weights
    assert summary["size_mb"] <= stored
    assert summary["torchsummary_mb"] > summary["size_mb"]


def test_memory_is_about_what_the_tensors_take() -> None:
    wide = {
        "name": "vit",
        "img_size": 32,
        "in_chans": 3,
        "num_classes": 10,
        "patch_size": 4,
        "embed_dim": 128,
        "depth": 4,
        "num_heads": 4,
    }
    found = peak_memory([Job(wide, 1), Job(wide, 32), Job({**wide, "attention": "fourier"}, 32)])
    assert found is not None
    one, many, fourier = found
    weights = weight_bytes(create_model(**wide))
    assert 3 * weights < one.train < 12 * weights  # weights, gradients and two moments, and how they are laid out
    assert many.train - one.train > 31 * 4 * 65 * 128 * 4 * 5  # a handful of activations a layer at the very least
    assert many.inference < many.train / 2
    assert fourier.train < many.train


@pytest.mark.parametrize(
    "options", [{}, {"stem": "conv", "patch_size": 1}, {"attention": "fourier"}, {"attention": "linformer(rank=8)"}]
)
def test_torchsummary_says_the_same(options: dict, capsys: pytest.CaptureFixture[str]) -> None:
    torchsummary = pytest.importorskip("torchsummary")
    model = create_model("vit", img_size=16, depth=2, embed_dim=32, num_heads=2, **options)
    torchsummary.summary(model, (3, 16, 16), device="cpu")
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Estimated Total Size"))
    assert torchsummary_bytes(model) / 2**20 == pytest.approx(float(line.split()[-1]), abs=0.0051)


def test_timing_has_mean_and_spread() -> None:
    timing = interleaved({"a": lambda: torch.ones(10).sum()}, seconds=0.0, least=7)["a"]
    assert timing.count == 7
    assert timing.min <= timing.median
    assert timing.min <= timing.mean
    assert timing.sd >= 0
