"""Our attention in timm's models and our models in timm, with timm's own sources."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

import pytest

Run = Callable[[str], None]
here = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")


@here
def test_exact_attention_is_the_same_model(with_timm: Run) -> None:
    with_timm("""
for options in ({}, {"qk_norm": True}, {"class_token": False, "global_pool": "avg"}, {"reg_tokens": 2}):
    model = vit(**options)
    wanted, names = model(x), set(model.state_dict())
    assert vix.patch(model, "softmax") is model
    assert torch.allclose(model(x), wanted, atol=1e-5), options
    assert set(model.state_dict()) == names
""")


@here
def test_layouts_train(with_timm: Run) -> None:
    with_timm("""
from vixformer.attention.performer import Performer
for layout in ("first(performer)", "lens", "nystrom(landmarks=4) + hedgehog", "linformer(rank=4)"):
    model = vix.patch(vit(), layout).train()
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.blocks.parameters()), layout
    again = vix.patch(vit(), layout)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.eval()(x), model.eval()(x))
model = vix.patch(vit(), "first(performer)")
assert [type(block.attn.core) is Performer for block in model.blocks] == [True, True, False, False]
""")


@here
def test_sentences(with_timm: Run) -> None:
    with_timm("""
for build, layout, message in (
    (vit, "fourier", "fourier has neither q nor k"),
    (vit, "performr", "unknown attention"),
    (lambda: create_model("resnet10t"), "performer", "has no attention with qkv, proj and num_heads"),
    (lambda: create_model("eva02_tiny_patch14_224"), "performer", "takes rope too"),
    (lambda: vit(attn_drop_rate=0.1), "performer", "make it with attn_drop_rate=0"),
):
    try:
        vix.patch(build(), layout)
        raise SystemExit(message)
    except ValueError as error:
        assert message in str(error), error
try:
    vix.patch(vit(), "performer").blocks[0].attn(torch.randn(1, 4, 192), attn_mask=torch.ones(4, 4))
    raise SystemExit("mask")
except ValueError as error:
    assert "takes no mask" in str(error)
other = torch.randn(2, 3, 48, 48)
assert vix.patch(vit(dynamic_img_size=True), "performer")(other).shape == (2, 7)
try:
    vix.patch(vit(dynamic_img_size=True), "lens")(other)
    raise SystemExit("size")
except ValueError as error:
    assert "for a grid of 4 x 4 and got 36 tokens" in str(error), error
""")


@here
def test_our_models_in_timm(with_timm: Run) -> None:
    with_timm("""
assert "vixformer_vit_tiny" in timm.list_models("vixformer_*")
model = timm.create_model("vixformer_vit", attention="first(performer)", img_size=32, num_classes=5, embed_dim=32, depth=2, num_heads=2)
assert model(x).shape == (2, 5)
assert model.attention_expression() == "performer + softmax"
try:
    timm.create_model("vixformer_vit", pretrained=True)
    raise SystemExit("pretrained")
except ValueError as error:
    assert "no pretrained weights" in str(error)
""")


def test_without_timm_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import vixformer as vix

    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setitem(sys.modules, "timm.models", None)
    with pytest.raises(ValueError, match="timm cannot be imported here"):
        vix.register_timm()
