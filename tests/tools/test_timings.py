"""The tool that measures times."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import torch

from tools import timings
from tools.timings import measure_time
from vixformer import load_recipe


def test_the_tool_keeps_every_call_and_the_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(timings, "alone", contextlib.nullcontext)
    measure_time({"quick/fourier": load_recipe("quick/fourier")}, tmp_path / "t.json", 2, 6, torch.device("cpu"))
    (kept,) = json.loads((tmp_path / "t.json").read_text()).values()
    assert len(kept["step_calls"]) == len(kept["inference_calls"]) == kept["step_ms"]["count"] == 6
    assert kept["machine"]["device"] == "cpu"
    assert kept["train_images"] == 10_000
