"""Peak memory."""

from __future__ import annotations

import pytest

from vixformer.measure.memory import Job, peak_memory


def test_memory_of_a_layer_without_weights() -> None:
    peaks = peak_memory([Job({"attention": "fourier", "dim": 64, "num_heads": 2, "num_tokens": 1024}, 16)])
    if peaks is None:
        pytest.skip("memory cannot be measured here")
    assert peaks[0].train >= 16 * 1024 * 64 * 4


def test_checkpointing_saves_memory() -> None:
    model = {"name": "vit", "attention": "softmax", "img_size": 64, "patch_size": 4, "embed_dim": 64, "depth": 12}
    peaks = peak_memory([Job(model, 64), Job(model, 64, checkpoint=True)])
    if peaks is None:
        pytest.skip("memory cannot be measured here")
    assert peaks[1].train < 0.7 * peaks[0].train
