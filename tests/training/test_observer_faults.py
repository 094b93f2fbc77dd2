"""Trainings that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.recipes import tiny
from vixformer.results.files import read_tensors
from vixformer.training import loop
from vixformer.training.loop import train
from vixformer.training.observer import NotFiniteError


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
