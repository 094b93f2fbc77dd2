"""The table of runs that diverge says what happened in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.stability import NAMES, VARIANTS, measure, section, variant, watched
from vixformer import load_recipe
from vixformer.attention.layout import parse
from vixformer.config import Recipe

GELU_2 = load_recipe("cifar-kernels/gelu-2")


def small(lr: float) -> Recipe:
    model: Any = GELU_2.model
    model = replace(model, embed_dim=16, num_heads=2, conv_dims=(4, 4))
    data = replace(GELU_2.data, name="fashion-mini", fraction=0.05, crop=0)
    return replace(
        GELU_2, data=data, model=model, train=replace(GELU_2.train, lr=lr, precision="float32", measure=False)
    )


def test_an_epoch_that_diverges_is_found() -> None:
    diverged, losses = watched(variant(small(1e-3), "neither"), 2)
    assert diverged is None
    assert len(losses) == 2
    diverged, losses = watched(variant(small(1e30), "neither"), 4)
    assert diverged is not None
    assert len(losses) < 4


def test_variants_change_what_they_say() -> None:
    for name in NAMES:
        recipe = load_recipe(f"cifar-kernels/{name}")
        found = {title: variant(recipe, title) for title in VARIANTS}
        raw = {title: parse(r.model.attention).stages[0].layers[0].kernel.raw for title, r in found.items()}  # pyright: ignore
        assert raw == {title: title != "shift" for title in VARIANTS}
        assert found["as printed"].train == recipe.train
        assert [
            (found[title].train.clip, found[title].train.warmup)
            for title in ("neither", "clipping", "warm-up", "shift")
        ] == [
            (None, 0.0),
            (1.0, 0.0),
            (None, 5.0),
            (None, 0.0),
        ]


def test_the_section_has_a_row_a_recipe() -> None:
    base = {
        "recipe": "gelu-1",
        "tokens": "one",
        "fraction": 0.1,
        "most_epochs": 20,
        "precision": "float32",
        "machine": "x",
    }
    found = [
        {**base, "variant": "neither", "seed": 0, "diverged": 4, "val_losses": [1.5]},
        {**base, "variant": "neither", "seed": 1, "diverged": None, "val_losses": [1.25, 0.75]},
        {**base, "variant": "shift", "seed": 0, "diverged": None, "val_losses": [1.0, 0.5]},
    ]
    row, *others = section(found).splitlines()[-len(NAMES) :]
    empty = " | ".join(["not run"] * len(VARIANTS))
    assert others == [f"| `cifar-kernels/{name}` | one | {empty} |" for name in NAMES[1:]]
    lost = "diverges in epoch 4 (1 of 2), 0.750"
    assert row == f"| `cifar-kernels/gelu-1` | one | {lost} | {lost} | not run | not run | 0.500 |"
    assert "\n\n1 of the 3 runs diverged." in section(found)
    assert "\n\nNone of the 2 runs diverged." in section(found[1:])
    assert "10% of the training images, 20 epochs of its schedule, float32, x" in section(found)
    assert section([]) == ""


def test_what_prevents_a_divergence_is_run_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.stability.load_recipe", lambda name: small(1e30 if name.endswith("gelu-1") else 1e-3))
    path = tmp_path / "stability.json"
    measure(path, ["gelu-1", "gelu-2"], "one", 0.02, 1, 1, "float32")
    found = json.loads(path.read_text())
    assert {(o["recipe"], o["variant"]) for o in found} == {
        *(("gelu-1", title) for title in VARIANTS),
        ("gelu-2", "neither"),
        ("gelu-2", "as printed"),
    }
    measure(path, ["gelu-1", "gelu-2"], "one", 0.02, 1, 1, "float32")
    assert json.loads(path.read_text()) == found
