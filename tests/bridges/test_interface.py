"""Our attention in models of transformers, and by name alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import vixformer as vix
from tests.support.attentions import distance
from tests.support.transformers import families, images, made, scores

transformers = pytest.importorskip("transformers")
PATCHED = [name for name in families() if name != "BEiT"]


@pytest.mark.parametrize("family", PATCHED)
def test_exact_attention_is_the_same_model(family: str) -> None:
    model, x = made(family), images()
    with torch.no_grad():
        wanted, names = scores(model, x), set(model.state_dict())
        assert vix.patch(model, "softmax") is model
        assert distance(scores(model, x), wanted) <= 1e-6
    assert set(model.state_dict()) == names
    assert sum(hasattr(module, "core") for module in model.modules()) == 2


@pytest.mark.parametrize("family", PATCHED)
def test_what_a_mechanism_learns_is_trained_and_stored(family: str, tmp_path: Any) -> None:
    x = images()
    grid = family != "ViT-MAE"  # its tokens are a part of the image, shuffled
    model = vix.patch(made(family), "lens + linformer(rank=4)" if grid else "hedgehog").train()
    own = [(name, p) for name, p in model.named_parameters() if ".core." in name]
    assert own
    scores(model, x).square().sum().backward()
    for name, p in own:
        assert p.grad is not None, name
        p.data.add_(0.05 * torch.randn_like(p))
    model.eval().save_pretrained(tmp_path)
    again = vix.load_patched(tmp_path)
    assert type(again) is type(families()[family]())
    assert set(again.state_dict()) == set(model.state_dict())
    with torch.no_grad():
        assert torch.equal(scores(again, x), scores(model, x))
    assert all(p.dtype == torch.float64 for name, p in model.double().named_parameters() if ".core." in name)


def test_layers_of_a_layout() -> None:
    model = vix.patch(made("ViT"), "first(performer(kernel=relu))")
    kinds = [type(layer.attention.core).__name__ for layer in model.vit.layers]
    assert kinds == ["Performer", "Softmax"]
    vix.patch(model, "softmax + nystrom(landmarks=4)")
    assert [type(layer.attention.core).__name__ for layer in model.vit.layers] == ["Softmax", "Nystrom"]


def test_text_stays_as_it_is() -> None:
    model = made("CLIP")
    words = torch.tensor([[97, 5, 6, 98, 96, 96], [97, 1, 2, 3, 4, 98]])
    mask = (words != 96).long()
    with torch.no_grad():
        wanted = model.get_text_features(input_ids=words, attention_mask=mask).pooler_output
        vix.patch(model, "performer(kernel=relu)")
        got = model.get_text_features(input_ids=words, attention_mask=mask).pooler_output
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("family", PATCHED)
def test_by_name_alone(family: str) -> None:
    model, x = made(family), images()
    assert "vix:performer(kernel=relu, features=none)" in vix.register_transformers()
    with torch.no_grad():
        wanted = scores(model, x)
        model.set_attn_implementation("vix:softmax" if family != "CLIP" else {"vision_config": "vix:softmax"})
        assert distance(scores(model, x), wanted) <= 1e-6
        patched = vix.patch(made(family), "performer(kernel=relu, features=none)")
        name = "vix:performer(kernel=relu, features=none)"
        model.set_attn_implementation(name if family != "CLIP" else {"vision_config": name})
        assert distance(scores(model, x), scores(patched, x)) <= 1e-6


def test_a_name_of_your_own() -> None:
    (name,) = [n for n in vix.register_transformers("cosine(causal=true)") if "causal" in n]
    config = transformers.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=16)
    model = transformers.AutoModel.from_config(config, attn_implementation=name)
    assert model.config._attn_implementation == name
    for text, message in (
        ("hedgehog", "hedgehog has weight_q, weight_k to store, and a function has no place for them: use vix.patch"),
        ("performer", "performer has projection to store"),
        ("first(cosine)", "one attention for all layers is needed"),
        ("fourier", "fourier has neither q nor k"),
    ):
        with pytest.raises(ValueError, match=message):
            vix.register_transformers(text)


def test_what_is_refused_is_a_sentence(tmp_path: Any) -> None:
    x = images()
    with pytest.raises(ValueError, match=r"BeitForImageClassification cannot be patched: .* adds a bias to the scores"):
        vix.patch(made("BEiT"), "performer")
    with pytest.raises(ValueError, match="fourier has neither q nor k"):
        vix.patch(made("ViT"), "fourier")
    with pytest.raises(ValueError, match="lens convolves over the image, and these tokens do not lie on a grid"):
        vix.patch(made("ViT-MAE"), "lens")  # most of its tokens are left out
    model = vix.patch(made("ViT"), "performer(kernel=relu)")
    with pytest.raises(ValueError, match="computes no attention weights to return: leave output_attentions out"):
        model(x, output_attentions=True)
    odd = torch.ones(2, 1, 17, 17).tril().bool()
    with pytest.raises(ValueError, match="this mask hides different ones"):
        model(x, attention_mask=odd)
    for layer in model.vit.layers:
        layer.attention.attention_dropout = 0.1
    with pytest.raises(ValueError, match=r"performer has no attention weights to drop, and the model drops 0\.1"):
        model.train()(x)
    dropping = transformers.ViTModel(transformers.ViTConfig(num_hidden_layers=1, attention_probs_dropout_prob=0.2))
    with pytest.raises(ValueError, match=r"drops attention weights in training \(layers.0.attention.* = 0.2\)"):
        vix.patch(dropping, "performer")
    made("ViT").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="names no attention of vixformer: load that model with from_pretrained"):
        vix.load_patched(tmp_path)
    with pytest.raises(ValueError, match=r"has no config.json"):
        vix.load_patched(tmp_path / "none")


@torch.no_grad()
def test_masked_tokens_change_nothing() -> None:
    model, x = vix.patch(made("ViT"), "performer(kernel=relu)"), images()
    keep = torch.ones(2, 17, dtype=torch.bool)
    keep[:, 9:] = False
    other = x.clone()
    other[:, :, 16:] += 1.0  # the lower half of the image: tokens from the ninth on
    a, b = (model.vit(t, attention_mask=keep).last_hidden_state[:, :9] for t in (x, other))
    assert distance(a, b) <= 1e-6
    assert distance(model.vit(x).last_hidden_state[:, :9], model.vit(other).last_hidden_state[:, :9]) > 1e-3
