"""The tables of docs/your-models.md: which models of timm and transformers can be patched, and what then works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.families import (
    REASONS,
    names_of_timm,
    of_timm,
    of_transformers,
    reason,
    timm_table,
    transformers_table,
)

PAGE = Path(__file__).parents[2] / "docs" / "your-models.md"
KINDS = {
    "vit_tiny_patch16_224": "Attention",
    "deit_tiny_distilled_patch16_224": "Attention",
    "eva02_tiny_patch14_224": "EvaAttention",
    "vit_small_patch16_dinov3": "EvaAttention",
    "naflexvit_base_patch16_gap": "Attention",
    "vit_base_patch16_siglip_224": "Attention",
    "pit_ti_224": "Attention",
    "beit_base_patch16_224": "adds a bias (relative positions) to its scores",
    "swin_tiny_patch4_window7_224": "adds a bias (relative positions) to its scores",
    "resnet10t": "has no attention that goes through torch's function",
}


def test_kinds_of_attention_in_timm() -> None:
    pytest.importorskip("transformers")
    facts = {name: kinds[0] if kinds else reason(said) for name, _, said, kinds, _ in of_timm(list(KINDS))}
    assert facts == KINDS


@pytest.mark.parametrize("attention", ["nystrom(landmarks=4)"])
def test_a_line_of_the_table(attention: str) -> None:
    pytest.importorskip("transformers")
    found = of_transformers("DINOv3", attention)
    assert found == dict.fromkeys(("patched", "gradients", "saved and loaded", "exported"), True)


@pytest.mark.slow
def test_the_table_of_transformers_is_what_happens() -> None:
    missing = [row for row in transformers_table() if row not in PAGE.read_text()]
    assert not missing, "python -m tests.support.families transformers prints the table"


@pytest.mark.slow
def test_the_table_of_timm_is_what_happens() -> None:
    missing = [row for row in timm_table(of_timm(names_of_timm(1))) if row not in PAGE.read_text()]
    assert not missing, "python -m tests.support.families timm prints the table"


@pytest.mark.slow
def test_every_model_of_timm_is_patched_or_refused_in_a_sentence() -> None:
    said = {name: said for name, _, said, _, _ in of_timm(names_of_timm()) if said}
    odd = {name: text for name, text in said.items() if reason(text) not in REASONS.values()}
    assert not odd
