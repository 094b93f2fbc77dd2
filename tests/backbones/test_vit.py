"""ViT: the parameter counts of the documents, every option, other image sizes, storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.attentions import ALL
from tests.support.models import small_vit
from vixformer import create_model, from_pretrained, list_models
from vixformer.attention.kernels.kernel import Kernel
from vixformer.measure.cost import parameters


@pytest.mark.parametrize(
    "attention", ["softmax", "performer", "performer + softmax", "first(performer(kernel=relu))", "last(performer)"]
)
def test_parameters_of_hybrid_transformer_models(attention: str) -> None:
    options = dict(attention=attention, embed_dim=64, depth=4, num_heads=4, mlp_ratio=2.0, patch_size=4)
    assert parameters(create_model("vit", img_size=28, in_chans=1, **options)).all == 139_018
    assert parameters(create_model("vit", img_size=32, in_chans=3, **options)).all == 142_026


def test_parameters_of_testing_linear_attention_transformers() -> None:
    model = create_model(
        "vit",
        img_size=32,
        patch_size=6,
        embed_dim=64,
        depth=1,
        num_heads=4,
        head_dim=128,
        mlp_dim=128,
        pool="flatten",
        head="mlp",
    )
    assert model.num_tokens == 25
    assert parameters(model).all == 5_545_482


def test_dropout_is_where_the_printout_of_that_work_has_it() -> None:
    """Twice in the MLP, on the flattened tokens and after both hidden layers of the head; none after attention."""
    model = small_vit(
        drop_rate=0.1, proj_drop_rate=0.0, pool="flatten", pool_drop_rate=0.5, head="mlp", head_drop_rate=0.25
    ).train()
    seen = {
        name: module.p for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout) and module.p
    }
    assert seen == {
        "blocks.0.mlp.drop": 0.1,
        "blocks.1.mlp.drop": 0.1,
        "pool_drop": 0.5,
        "head.2": 0.25,
        "head.5": 0.25,
    }
    model.head = torch.nn.Identity()
    assert set(model.forward_head(torch.ones(4, model.num_tokens, 32)).unique().tolist()) == {0.0, 2.0}
    assert small_vit(drop_rate=0.1).blocks[0].attn.drop.p == 0.1  # left out, after attention too


@pytest.mark.parametrize(
    ("name", "count"), [("vit-tiny", 5_717_416), ("vit-small", 22_050_664), ("vit-base", 86_567_656)]
)
def test_published_sizes(name: str, count: int) -> None:
    """As timm counts vit_*_patch16_224."""
    assert name in list_models("vit-*")
    with torch.device("meta"):
        model = create_model(name)
    assert parameters(model).all == count


@pytest.mark.parametrize("attention", ALL)
@pytest.mark.parametrize("pos", ["learned", "rope2d"])
def test_every_attention_trains_in_a_vit(attention: str, pos: str) -> None:
    pool = "mean" if "grid=true" in attention else "cls"
    model = small_vit(attention=attention, pos=pos, pool=pool, drop_rate=0.1, drop_path_rate=0.2).train()
    model(torch.randn(3, 3, 16, 16)).square().mean().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


@pytest.mark.parametrize(
    "options",
    [
        *[dict(pos=pos) for pos in ("learned", "sincos", "rope", "rope2d", "none")],
        *[dict(pool=pool) for pool in ("cls", "mean", "seq", "flatten")],
        *[dict(stem=stem) for stem in ("linear", "conv")],
        dict(stem="conv", stem_norm=True, stem_act="relu"),
        dict(head="mlp", head_drop_rate=0.5),
        dict(norm_place="post"),
        dict(act="relu"),
        dict(head_dim=20),
        dict(proj="one-kv"),
        dict(qkv_bias=False, out_bias=False),
        dict(mlp_dim=50),
        dict(num_classes=0),
        dict(patch_size=6),
        dict(img_size=(12, 20)),
    ],
)
def test_options_build_and_survive_storage(options: dict, tmp_path: Path) -> None:
    model = small_vit(**options)
    x = torch.randn(2, 3, *model.img_size)
    model.save_pretrained(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    with torch.no_grad():
        assert torch.equal(from_pretrained(tmp_path)(x), model(x))
        assert model(x).shape == (2, options.get("num_classes", 10) or 32)


def test_patches_that_do_not_divide_the_image_are_floored() -> None:
    model = small_vit(img_size=32, patch_size=6)
    assert model.grid == (5, 5)
    x = torch.randn(1, 3, 32, 32)
    other = x.clone()
    other[..., 30:, :] = 9.0
    other[..., 30:] = -9.0
    with torch.no_grad():
        assert torch.equal(model(x), model(other))


@pytest.mark.parametrize(
    "attention", ["softmax", "performer", "nystrom(landmarks=8)", "fourier", "hedgehog", "focused", "cosine"]
)
@pytest.mark.parametrize("pos", ["learned", "sincos", "rope", "rope2d", "none"])
@pytest.mark.parametrize("size", [(24, 24), (16, 28), (8, 8)])
def test_other_resolutions_and_rectangles(attention: str, pos: str, size: tuple[int, int]) -> None:
    model = small_vit(attention=attention, pos=pos)
    with torch.no_grad():
        assert model(torch.randn(2, 3, *size)).isfinite().all()


def test_where_a_mechanism_cannot_follow_the_image_it_says_so() -> None:
    big = torch.randn(1, 3, 24, 24)
    with pytest.raises(ValueError, match="linformer was built for 17 tokens and got 37"):
        small_vit(attention="linformer")(big)
    assert small_vit(attention="linformer", pool="mean")(torch.randn(1, 3, 8, 8)).shape == (1, 10)
    with pytest.raises(ValueError, match="token mlp was built for 17 tokens and got 37"):
        small_vit(attention="mlp")(big)
    with pytest.raises(ValueError, match=r"flatten.* was built for 16 tokens and got 36"):
        small_vit(pool="flatten")(big)
    with pytest.raises(ValueError, match="smaller than one patch"):
        small_vit()(torch.randn(1, 3, 3, 16))
    with pytest.raises(ValueError, match=r"\(batch, 3, height, width\), not \(1, 1, 16, 16\)"):
        small_vit()(torch.randn(1, 1, 16, 16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(num_heads=5), "num_heads must divide embed_dim: 5 does not divide 32"),
        (dict(attention="performr"), 'did you mean "performer"'),
        (dict(depth=0), "depth must be greater than 0, not 0"),
        (dict(depht=3), 'unknown option of vit "depht"; did you mean "depth"'),
        (dict(img_size=2), "smaller than one patch"),
        (dict(img_size="large"), "img_size must be"),
        (dict(stem="cnn"), 'unknown stem "cnn"; did you mean "conv"'),
        (dict(pos="rotary"), 'unknown pos "rotary"'),
        (dict(pool="max"), 'unknown pool "max"'),
        (dict(proj="cnov"), 'unknown projection "cnov"; did you mean "conv"'),
        (dict(act="swish"), 'unknown activation "swish"'),
        (dict(head="big"), "head must be linear or mlp, not 'big'"),
        (dict(drop_rate=1.0), "drop_rate must be less than 1"),
        (dict(pos="rope2d", head_dim=6), "head width that 4 divides, not 6"),
        (dict(pos="rope", head_dim=5), "even head width, not 5"),
        (dict(pos="sincos", embed_dim=30), "width that 4 divides, not 30"),
        (dict(stem="conv", embed_dim=30), "4 must divide, not 30"),
        (dict(stem_act="foo"), 'unknown activation "foo"'),
        (dict(mlp_ratio=float("inf")), "mlp_ratio must be a finite number"),
        (dict(depth=True), "depth must be a whole number, not 'true'"),
        (dict(attention="softmax | performer"), "2 stages and the model 1 stage"),
        (dict(attention="performer*3"), "names 3 layers and the depth is 2"),
    ],
)
def test_bad_options_are_one_sentence(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        small_vit(**options)
    assert "\n" not in str(caught.value)


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match='unknown model "vitt"; did you mean "vit"'):
        create_model("vitt")


def test_features_maps_classifier_and_weight_decay() -> None:
    model = small_vit(attention="first(hedgehog)")
    x = torch.randn(2, 3, 16, 16)
    assert model.forward_features(x).shape == (2, 17, 32)
    assert [m.shape for m in model.forward_maps(x)] == [(2, 32, 4, 4)] * 2
    assert torch.allclose(model.forward_head(model.forward_features(x)), model(x))
    model.reset_classifier(100)
    assert model(x).shape == (2, 100)
    assert model.config.num_classes == 100
    skipped = model.no_weight_decay()
    assert {"cls_token", "pos.embed", "norm.weight", "head.bias", "blocks.0.attn.core.weight_q"} <= skipped
    assert not {"head.weight", "blocks.0.attn.qkv.weight", "patch_embed.proj.weight"} & skipped


def test_a_new_classifier_is_like_the_model() -> None:
    model = small_vit(head="mlp", head_drop_rate=0.5).bfloat16()
    model.reset_classifier(7)
    x = torch.randn(2, 3, 16, 16, dtype=torch.bfloat16)
    with torch.no_grad():
        assert torch.equal(model(x), model(x))
    assert model(x).shape == (2, 7)
    with pytest.raises(ValueError, match="num_classes must be greater than or equal to 0 or none, not -1"):
        model.reset_classifier(-1)


def test_attention_maps_of_images() -> None:
    model = small_vit(attention="performer + softmax + fourier", depth=3, pos="rope2d")
    maps = model.attention_maps(torch.randn(2, 3, 16, 16))
    assert [None if m is None else tuple(m.shape) for m in maps] == [(2, 2, 17, 17), (2, 2, 17, 17), None]
    assert torch.allclose(maps[1].sum(-1), torch.ones(2, 2, 17), atol=1e-5)
    seen = model.attention_inputs(torch.randn(2, 3, 16, 16))
    assert seen[0][2]["rotation"] is not None


def test_images_that_are_not_floats() -> None:
    with pytest.raises(ValueError, match="images must be floating-point numbers"):
        small_vit()(torch.zeros(1, 3, 16, 16, dtype=torch.uint8))


def test_attention_and_mlp_are_named_as_timm_names_them() -> None:
    names = set(small_vit().state_dict())
    assert {
        "blocks.0.attn.qkv.weight",
        "blocks.0.attn.proj.bias",
        "blocks.1.mlp.fc1.weight",
        "patch_embed.proj.weight",
        "cls_token",
    } <= names


def test_maps_are_the_image_and_not_its_transpose() -> None:
    model = small_vit(img_size=(8, 16), pos="none", attention="fourier")
    x = torch.zeros(1, 3, 8, 16)
    tokens, grid = model.start(x)
    assert grid == (2, 4)
    x[..., 0:4, 12:16] = 1.0
    changed = (model.start(x)[0] - tokens).abs().sum(-1)[0, 1:].unflatten(0, grid)
    assert changed.nonzero().tolist() == [[0, 3]]


def test_layerwise_linformer_has_one_matrix(tmp_path: Path) -> None:
    model: Any = small_vit(attention="linformer(rank=8, share=layerwise)", depth=3)
    assert len({m.core.E.data_ptr() for m in model.attentions()}) == 1
    alone = small_vit(attention="linformer(rank=8, share=kv)", depth=3)
    assert parameters(alone).all - parameters(model).all == 2 * 17 * 8
    model.save_pretrained(tmp_path)
    again: Any = from_pretrained(tmp_path)
    assert len({m.core.E.data_ptr() for m in again.attentions()}) == 1
    x = torch.randn(1, 3, 16, 16)
    assert torch.equal(model(x), again(x))


@torch.no_grad()
def test_every_kernel_builds_in_a_vit() -> None:
    for name in Kernel.members:
        assert small_vit(attention=f"performer(kernel={name})")(torch.randn(1, 3, 16, 16)).shape == (1, 10)
