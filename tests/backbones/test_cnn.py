"""Convolutional networks without attention."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vixformer import create_model, from_pretrained


def test_a_plain_cnn(tmp_path: Path) -> None:
    model = create_model("cnn", conv_dims=(8, 16)).eval()
    x = torch.randn(2, 3, 32, 32)
    assert [tuple(m.shape) for m in model.forward_maps(x)] == [(2, 8, 16, 16), (2, 16, 8, 8)]
    assert model.attention_expression() == "none"
    model.save_pretrained(tmp_path)
    assert torch.equal(from_pretrained(tmp_path)(x), model(x))
    with pytest.raises(ValueError, match="attention must be none"):
        create_model("cnn", attention="softmax")
    with pytest.raises(ValueError, match="3 x 3 cannot be halved 2 times"):
        model(torch.randn(1, 3, 3, 3))


def test_a_stem_alone_is_a_cnn(tmp_path: Path) -> None:
    """The baseline of a ViT behind the same stem: its features are those of the stem."""
    model = create_model("cnn", stem="resnet", embed_dim=16, patch_size=4).eval()
    vit = create_model("vit", stem="resnet", embed_dim=16, patch_size=4, depth=1, num_heads=2).eval()
    vit.patch_embed.load_state_dict(model.stem.state_dict())  # pyright: ignore
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(model.forward_features(x), vit.patch_embed(x))  # pyright: ignore
    assert torch.equal(model(x), model.head(vit.patch_embed(x).mean(1)))  # pyright: ignore
    model.save_pretrained(tmp_path)
    assert torch.equal(from_pretrained(tmp_path)(x), model(x))
    with pytest.raises(ValueError, match="smaller than one patch"):
        create_model("cnn", stem="resnet", img_size=3)
