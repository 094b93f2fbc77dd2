"""Models in files: what comes back, and what is said of damaged ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from tests.support.models import small_vit
from vixformer import from_pretrained


def test_stored_precision_comes_back(tmp_path: Path) -> None:
    small_vit(attention="performer").bfloat16().save_pretrained(tmp_path)
    assert {p.dtype for p in from_pretrained(tmp_path).parameters()} == {torch.bfloat16}


def test_the_stored_layout_is_the_expanded_one(tmp_path: Path) -> None:
    small_vit(attention="first(performer(kernel=relu, features=8), n=1)").save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["attention"] == "performer(kernel=relu, features=8) + softmax"
    assert stored["model"] == "vit"


def test_damaged_checkpoints_are_one_sentence(tmp_path: Path) -> None:
    model = small_vit(attention="performer")
    model.save_pretrained(tmp_path)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    good_weights, good_config = weights.read_bytes(), config.read_text()

    def complaint() -> str:
        with pytest.raises(ValueError, match=r".") as caught:
            from_pretrained(tmp_path)
        return str(caught.value)

    for size in (0, 4, 100, len(good_weights) - 10):
        weights.write_bytes(good_weights[:size])
        assert "damaged or cut short" in complaint()
    weights.unlink()
    assert "missing" in complaint()
    weights.write_bytes(good_weights)
    values = json.loads(good_config)
    for change, words in [
        (dict(model=["vit"]), "is not a model's configuration"),
        (dict(embed_dim=64), "has another shape of"),
        (dict(depth=1), "has the unknown blocks.1"),
        (dict(depth=3), "lacks blocks.2"),
        (dict(attention="softmax"), "has the unknown blocks.0.attn.core.projection"),
        (dict(attention="nope"), "unknown attention"),
        (dict(color="red"), 'unknown option of .* "color"'),
        (dict(depth="two"), "depth must be a whole number"),
        (dict(model="resnet"), 'unknown model "resnet"'),
    ]:
        config.write_text(json.dumps({**values, **change}))
        assert re.search(words, complaint()), words
    for text in ("", "[]", "{", "{}", "null"):
        config.write_text(text)
        assert re.search("is not (JSON|a model's configuration)", complaint())
    config.unlink()
    assert (
        "has no model: give a run folder, a folder with config.json and its weights, or owner/name of the hub"
        in complaint()
    )
