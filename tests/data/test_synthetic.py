"""Noise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vixformer.data.synthetic import Synthetic


def test_synthetic_images_are_noise() -> None:
    images = Synthetic(Path("nowhere")).read("test")
    assert images.shape == (3, 224, 224)
    assert len(images) == 1000
    assert images.pixels.dtype == torch.float32
    assert abs(images.pixels[:20].mean().item()) < 0.01
    assert images.pixels[:20].std().item() == pytest.approx(1, abs=0.01)
