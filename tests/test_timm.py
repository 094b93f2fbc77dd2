"""Our attention in timm's models and our models in timm, with timm's own sources.

timm asks for torchvision, which torch's build here cannot load, so these run in a process where an empty stand-in has that name: timm's
model code never calls it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

PREPARE = """
import sys, types
from importlib.machinery import ModuleSpec

class Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

class StandIn(types.ModuleType):
    __path__ = []
    __getattr__ = Anything.__getattr__

for name in ("torchvision", "torchvision.ops", "torchvision.ops.misc", "torchvision.transforms", "torchvision.transforms.functional",
             "torchvision.datasets", "torchvision.models", "torchvision.models.feature_extraction"):
    sys.modules[name] = StandIn(name)
    sys.modules[name].__spec__ = ModuleSpec(name, None, is_package=True)
    if "." in name:
        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], sys.modules[name])

import timm, torch
import vixformer as vix
from timm.models import create_model
torch.manual_seed(0)
x = torch.randn(2, 3, 32, 32)
vit = lambda **o: create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=4, num_classes=7, **o).eval()
"""
here = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PREPARE + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


@here
def test_exact_attention_is_the_same_model() -> None:
    run("""
for options in ({}, {"qk_norm": True}, {"class_token": False, "global_pool": "avg"}, {"reg_tokens": 2}):
    model = vit(**options)
    wanted, names = model(x), set(model.state_dict())
    assert vix.patch(model, "softmax") is model
    assert torch.allclose(model(x), wanted, atol=1e-5), options
    assert set(model.state_dict()) == names
""")


@here
def test_layouts_train() -> None:
    run("""
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
def test_sentences() -> None:
    run("""
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
def test_our_models_in_timm() -> None:
    run("""
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
