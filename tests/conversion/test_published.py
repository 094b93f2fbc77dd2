"""Weights that others publish, with random numbers in them: the same scores."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from tests.attention.cases import distance
from vixformer import create_model, from_timm

SIZES: dict[str, Any] = dict(
    hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4, layer_norm_eps=1e-6
)


@pytest.mark.parametrize("old_names", [False, True])
@torch.no_grad()
def test_vit_of_transformers(old_names: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(**SIZES)
    config.num_labels = 5
    peer = transformers.ViTForImageClassification(config).eval()
    weights = dict(peer.state_dict())
    if old_names:  # as in checkpoints written before its version 5
        for new, old in (
            (r"^vit\.layers\.", "vit.encoder.layer."),
            (r"attention\.q_proj", "attention.attention.query"),
            (r"attention\.k_proj", "attention.attention.key"),
            (r"attention\.v_proj", "attention.attention.value"),
            (r"attention\.o_proj", "attention.output.dense"),
            (r"mlp\.fc1", "intermediate.dense"),
            (r"mlp\.fc2", "output.dense"),
        ):
            weights = {re.sub(new, old, name): value for name, value in weights.items()}
    x = torch.randn(2, 3, 16, 16)
    assert distance(from_timm(weights)(x), peer(x).logits) <= 1e-4
    assert from_timm(weights, attention="hedgehog").attention_expression() == "hedgehog"


@torch.no_grad()
def test_names_of_timm_and_other_sizes() -> None:
    model = create_model("vit", img_size=16, patch_size=4, embed_dim=64, depth=2, num_heads=2, num_classes=7)
    timm = {("pos_embed" if name == "pos.embed" else name): value for name, value in model.state_dict().items()}
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(from_timm(timm, num_heads=2)(x), model.eval()(x))
    larger = from_timm(timm, num_heads=2, img_size=24)
    x = torch.randn(2, 3, 24, 24)
    assert larger.config.img_size == 24
    assert distance(larger(x), model(x)) <= 1e-5  # ours interpolates the same on the way


def test_what_cannot_be_read() -> None:
    model = create_model("vit", img_size=16, patch_size=4, embed_dim=64, depth=1, num_heads=2)
    weights = dict(model.state_dict())
    with pytest.raises(ValueError, match="no state dict of a ViT or DeiT"):
        from_timm({"weight": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"has no place for: blocks.0.ls1.gamma"):
        from_timm({**weights, "blocks.0.ls1.gamma": torch.zeros(64)})
    with pytest.raises(ValueError, match="distilled DeiTs cannot be read"):
        from_timm({**weights, "pos.embed": torch.zeros(1, 18, 64)})
    with pytest.raises(ValueError, match=r"lacks: blocks.0.norm1.bias"):
        from_timm({name: value for name, value in weights.items() if name != "blocks.0.norm1.bias"})
    narrow = create_model("vit", img_size=16, patch_size=4, embed_dim=48, depth=1, num_heads=2)
    with pytest.raises(ValueError, match="the width 48 is no multiple of 64: give num_heads"):
        from_timm(narrow.state_dict())
