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
    (lambda: create_model("resnet10t"), "performer", "ResNet has no self-attention to replace"),
    (lambda: create_model("beit_base_patch16_224", depth=1), "performer", "adds a bias to the scores"),
    (lambda: vit(attn_drop_rate=0.1), "performer", "timm's attn_drop_rate=0"),
):
    try:
        vix.patch(build(), layout)
        raise SystemExit(message)
    except ValueError as error:
        assert message in str(error), error
try:
    vix.patch(vit(), "performer").blocks[0].attn(torch.randn(1, 4, 192), attn_mask=torch.randn(4, 4))
    raise SystemExit("mask")
except ValueError as error:
    assert "no scores to add the numbers of this mask to" in str(error)
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
size = dict(img_size=32, num_classes=5, embed_dim=32, depth=2, num_heads=2)
model = timm.create_model("vixformer_vit", attention="first(performer)", **size)
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


@here
def test_our_models_behave_as_timm_s(with_timm: Run) -> None:
    with_timm("""
from timm.data import resolve_model_data_config
from timm.optim import create_optimizer_v2, param_groups_layer_decay
small = dict(img_size=32, num_classes=5)
for name, options in (("vit", dict(embed_dim=32, depth=2, num_heads=2)), ("levit", {}), ("cvt", {}), ("pit", {}),
                      ("cct", {}), ("cnn", {})):
    model = timm.create_model("vixformer_" + name, **small, **options).eval()
    assert model.get_classifier() is model.head
    assert model.default_cfg["input_size"] == (3, 32, 32) and model.pretrained_cfg["num_classes"] == 5
    assert resolve_model_data_config(model)["input_size"] == (3, 32, 32)
    final, maps = model.forward_intermediates(x)
    assert torch.equal(final, model.forward_features(x)), name
    for got, wanted in zip(maps, model.forward_maps(x), strict=True):
        assert torch.equal(got, wanted)
    last = model.forward_intermediates(x, indices=1, intermediates_only=True, output_fmt="NLC")
    assert len(last) == 1 and torch.equal(last[0], maps[-1].flatten(2).transpose(1, 2)), name
    groups = param_groups_layer_decay(model, layer_decay=0.5, no_weight_decay_list=model.no_weight_decay())
    scale = {id(p): group["lr_scale"] for group in groups for p in group["params"]}
    assert len(scale) == len(list(model.parameters()))
    weights = dict(model.named_parameters())
    if name == "vit":
        assert scale[id(weights["head.weight"])] == 1.0
        order = [scale[id(weights[n])] for n in ("patch_embed.proj.weight", "blocks.0.attn.qkv.weight",
                                                 "blocks.1.attn.qkv.weight")]
        assert order == sorted(order) and len(set(order)) == 3, order
    features = timm.create_model("vixformer_" + name, features_only=True, out_indices=(0, 1), **small, **options)
    assert [tuple(f.shape[1:2]) for f in features(x)] == [(c,) for c in features.feature_info.channels()], name
    assert [32 // f.shape[2] for f in features(x)] == features.feature_info.reduction(), name
    create_optimizer_v2(model, opt="adamw", lr=1e-3, layer_decay=0.7).step()
try:
    model.forward_intermediates(x, indices=(99,))
    raise SystemExit("indices")
except ValueError as error:
    assert "indices must be blocks of the" in str(error)
""")


@here
def test_what_timm_s_scripts_do_with_a_model(with_timm: Run) -> None:
    """The calls of train.py and benchmark.py, which are not in the wheel, with their defaults."""
    with_timm("""
from timm.data import resolve_data_config
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import ModelEmaV3, NativeScaler, get_state_dict, unwrap_model
from timm.models import model_parameters
model = timm.create_model("vixformer_vit_tiny", pretrained=False, in_chans=3, num_classes=5, drop_rate=0.0,
                          drop_path_rate=None, drop_block_rate=None, global_pool=None, bn_momentum=None, bn_eps=None,
                          scriptable=False, checkpoint_path="", img_size=32, patch_size=8)
assert model.num_classes == 5
model.set_grad_checkpointing()
config = resolve_data_config(dict(img_size=None, input_size=None, crop_pct=None, mean=None), model=model)
assert config["input_size"] == (3, 32, 32)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05, momentum=0.9, layer_decay=0.7,
                                filter_bias_and_bn=True)
scheduler, epochs = create_scheduler_v2(optimizer, sched="cosine", num_epochs=2, warmup_epochs=1, updates_per_epoch=2)
average, scaler, loss = ModelEmaV3(model, decay=0.9), NativeScaler("cpu"), SoftTargetCrossEntropy()
before = {name: p.clone() for name, p in model.named_parameters()}
for step in range(2):
    optimizer.zero_grad()
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        value = loss(model(x), torch.full((2, 5), 0.2))
    scaler(value, optimizer, clip_grad=1.0, parameters=model_parameters(model, exclude_head=True))
    average.update(model, step=step)
    scheduler.step_update(num_updates=step + 1)
assert any(not torch.equal(before[name], p) for name, p in model.named_parameters())
again = timm.create_model("vixformer_vit_tiny", num_classes=5, img_size=32, patch_size=8)
again.load_state_dict(get_state_dict(average, unwrap_model))
model.eval().to(memory_format=torch.channels_last)
with torch.inference_mode():
    assert model(x.contiguous(memory_format=torch.channels_last)).shape == (2, 5)
model.reset_classifier(7)
assert model(x).shape == (2, 7)
""")


@here
def test_families_of_timm(with_timm: Run) -> None:
    with_timm("""
from vixformer.bridges.seam import layers_of
for name, options in (
    ("deit_tiny_distilled_patch16_224", dict(depth=2)),
    ("eva02_tiny_patch14_224", dict(depth=2)),
    ("vit_small_patch16_dinov3", dict(depth=2)),
    ("vit_base_patch16_siglip_224", dict(depth=2)),
    ("vit_small_patch14_reg4_dinov2", dict(depth=2, img_size=56)),
    ("naflexvit_base_patch16_gap", dict(depth=2)),
):
    model = create_model(name, num_classes=7, **options).eval()
    for p in model.parameters():
        p.data.add_(0.02 * torch.randn_like(p))
    size = options.get("img_size") or model.default_cfg["input_size"][-1]
    image = torch.randn(1, 3, size, size)
    with torch.no_grad():
        wanted, names = model(image), set(model.state_dict())
        vix.patch(model, "softmax")
        assert (model(image) - wanted).norm() <= 1e-5 * wanted.norm(), name
        assert set(model.state_dict()) == names
    assert len(layers_of(model)) == 2, name
    vix.patch(model, "hedgehog" if "naflex" in name else "lens + hedgehog").train()
    model(image).sum().backward()
    assert all(p.grad is not None for layer in layers_of(model) for p in layer.parameters()), name
# a batch of images of several sizes, padded to the same number of tokens
model = vix.patch(create_model("naflexvit_base_patch16_gap", depth=1, num_classes=7).eval(), "performer(kernel=relu)")
yx = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"), -1).reshape(1, 16, 2)
patches, valid = torch.randn(1, 16, 768), torch.ones(1, 16, dtype=torch.bool)
valid[:, 12:] = False
other = patches.clone()
other[:, 12:] += 1.0
a, b = (model({"patches": p, "patch_coord": yx, "patch_valid": valid}) for p in (patches, other))
assert torch.allclose(a, b, atol=1e-5)
""")
