"""The tables of docs/your-models.md: which models of timm and transformers can be patched, and what then works."""

from __future__ import annotations

import pytest

from tests.support.families import (
    PAGE,
    REASONS,
    all_of_timm,
    of_timm,
    of_transformers,
    reason,
    timm_table,
    transformers_table,
)

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
    facts = {name: kinds[0] if kinds else reason(said) for name, _, said, kinds in of_timm(list(KINDS))}
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
    """Of all models, each of which is patched or refused in a sentence."""
    facts = all_of_timm()
    odd = {name: said for name, _, said, _ in facts if said and reason(said) not in REASONS.values()}
    assert not odd
    missing = [row for row in timm_table(facts) if row not in PAGE.read_text()]
    assert not missing, "python -m tests.support.families timm FILE writes the table"


def test_rows_of_the_table_of_timm() -> None:
    refused = "X has no self-attention to replace: vix can"
    facts = [
        ("a_1", "a", "", ["Attention"]),
        ("a_2", "a", "a_2 cannot be patched: it is causal: no token sees those after it", []),
        ("a_3", "a", "", ["Other"]),
        ("b_1", "b", refused, []),
        ("b_2", "b", refused, []),
    ]
    rows = timm_table(facts)
    assert rows[0] == "5 models: 2 are patched, 3 are refused."
    assert rows[4] == "| `a` | 3 | 2 | Attention, Other | 1 is causal |"
    assert rows[-1] == "The models of these modules have no attention that goes through torch's function: `b` 2."
