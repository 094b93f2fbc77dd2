"""ViT: the parameter counts of the documents, every option, other image sizes, storage."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.attention.cases import ALL
from vixformer import create_model, from_pretrained, list_models
from vixformer.attention.kernels.kernel import Kernel
from vixformer.measure.cost import parameters

SMALL = dict(img_size=16, patch_size=4, embed_dim=32, depth=2, num_heads=2)


def small(**options: object) -> Any:
    return create_model("vit", **{**SMALL, **options}).eval()


@pytest.mark.parametrize("attention", ["softmax", "performer", "performer + softmax", "first(performer(kernel=relu))", "last(performer)"])
def test_parameters_of_hybrid_transformer_models(attention: str) -> None:
    options = dict(attention=attention, embed_dim=64, depth=4, num_heads=4, mlp_ratio=2.0, patch_size=4)
    assert parameters(create_model("vit", img_size=28, in_chans=1, **options)).all == 139_018
    assert parameters(create_model("vit", img_size=32, in_chans=3, **options)).all == 142_026


def test_parameters_of_testing_linear_attention_transformers() -> None:
    model = create_model(
        "vit", img_size=32, patch_size=6, embed_dim=64, depth=1, num_heads=4, head_dim=128, mlp_dim=128, pool="flatten", head="mlp"
    )
    assert model.num_tokens == 25
    assert parameters(model).all == 5_545_482


def test_dropout_is_where_the_printout_of_that_work_has_it() -> None:
    """Twice in the MLP, on the flattened tokens and after both hidden layers of the head; none after attention."""
    model = small(drop_rate=0.1, proj_drop_rate=0.0, pool="flatten", pool_drop_rate=0.5, head="mlp", head_drop_rate=0.25).train()
    seen = {name: module.p for name, module in model.named_modules() if isinstance(module, torch.nn.Dropout) and module.p}
    assert seen == {"blocks.0.mlp.drop": 0.1, "blocks.1.mlp.drop": 0.1, "pool_drop": 0.5, "head.2": 0.25, "head.5": 0.25}
    model.head = torch.nn.Identity()
    assert set(model.forward_head(torch.ones(4, model.num_tokens, 32)).unique().tolist()) == {0.0, 2.0}
    assert small(drop_rate=0.1).blocks[0].attn.drop.p == 0.1  # left out, after attention too


@pytest.mark.parametrize(("name", "count"), [("vit-tiny", 5_717_416), ("vit-small", 22_050_664), ("vit-base", 86_567_656)])
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
    model = small(attention=attention, pos=pos, pool=pool, drop_rate=0.1, drop_path_rate=0.2).train()
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
    model = small(**options)
    x = torch.randn(2, 3, *model.img_size)
    model.save_pretrained(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    with torch.no_grad():
        assert torch.equal(from_pretrained(tmp_path)(x), model(x))
        assert model(x).shape == (2, options.get("num_classes", 10) or 32)


def test_channel_pixels_share_their_position() -> None:
    model = small(stem="channel-pixels", patch_size=1, img_size=8, pool="mean", attention="performer(kernel=relu)")
    assert model.num_tokens == 3 * 64
    assert model.pos.embed.shape == (1, 64, 32)
    x = torch.randn(2, 3, 8, 8)
    added = model.pos.added((8, 8), 3, torch.device("cpu"))
    assert added is not None
    assert torch.equal(added[:, :64], added[:, 64:128])
    tokens = model.patch_embed(x)
    red, weight, bias = x[0, 0, 1, 2], model.patch_embed.proj.weight, model.patch_embed.proj.bias
    assert torch.allclose(tokens[0, 10], red * weight[:32, 0, 0, 0] + bias[:32], atol=1e-6)
    assert model(x).shape == (2, 10)
    assert create_model("vit", stem="channel-pixels", patch_size=1, depth=1).num_tokens == 3 * 32 * 32 + 1
    with pytest.raises(ValueError, match="patch_size must be 1, not 4"):
        small(stem="channel-pixels")
    with pytest.raises(ValueError, match="several tokens on each place"):
        model.forward_maps(x)


def test_patches_that_do_not_divide_the_image_are_floored() -> None:
    model = small(img_size=32, patch_size=6)
    assert model.grid == (5, 5)
    x = torch.randn(1, 3, 32, 32)
    other = x.clone()
    other[..., 30:, :] = 9.0
    other[..., 30:] = -9.0
    with torch.no_grad():
        assert torch.equal(model(x), model(other))


@pytest.mark.parametrize("attention", ["softmax", "performer", "nystrom(landmarks=8)", "fourier", "hedgehog", "focused", "cosine"])
@pytest.mark.parametrize("pos", ["learned", "sincos", "rope", "rope2d", "none"])
@pytest.mark.parametrize("size", [(24, 24), (16, 28), (8, 8)])
def test_other_resolutions_and_rectangles(attention: str, pos: str, size: tuple[int, int]) -> None:
    model = small(attention=attention, pos=pos)
    with torch.no_grad():
        assert model(torch.randn(2, 3, *size)).isfinite().all()


def test_interpolated_positions_keep_their_place() -> None:
    model = small(pos="learned")
    ramp = torch.arange(4.0).repeat(4)[:, None].expand(16, 32)
    model.pos.embed.data[0, 1:] = ramp
    added = model.pos.added((4, 8), 1, torch.device("cpu"))
    assert added is not None
    assert added.shape == (1, 33, 32)
    columns = added[0, 1:].unflatten(0, (4, 8))
    assert (columns[:, 1:] >= columns[:, :-1] - 1e-4).all()
    assert torch.equal(added[:, :1], model.pos.embed[:, :1])


def test_where_a_mechanism_cannot_follow_the_image_it_says_so() -> None:
    big = torch.randn(1, 3, 24, 24)
    with pytest.raises(ValueError, match="linformer was built for 17 tokens and got 37"):
        small(attention="linformer")(big)
    assert small(attention="linformer", pool="mean")(torch.randn(1, 3, 8, 8)).shape == (1, 10)
    with pytest.raises(ValueError, match="token mlp was built for 17 tokens and got 37"):
        small(attention="mlp")(big)
    with pytest.raises(ValueError, match=r"flatten.* was built for 16 tokens and got 36"):
        small(pool="flatten")(big)
    with pytest.raises(ValueError, match="smaller than one patch"):
        small()(torch.randn(1, 3, 3, 16))
    with pytest.raises(ValueError, match=r"\(batch, 3, height, width\), not \(1, 1, 16, 16\)"):
        small()(torch.randn(1, 1, 16, 16))


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
        small(**options)
    assert "\n" not in str(caught.value)


def test_unknown_model() -> None:
    with pytest.raises(ValueError, match='unknown model "vitt"; did you mean "vit"'):
        create_model("vitt")


def test_features_maps_classifier_and_weight_decay() -> None:
    model = small(attention="first(hedgehog)")
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
    model = small(head="mlp", head_drop_rate=0.5).bfloat16()
    model.reset_classifier(7)
    x = torch.randn(2, 3, 16, 16, dtype=torch.bfloat16)
    with torch.no_grad():
        assert torch.equal(model(x), model(x))
    assert model(x).shape == (2, 7)
    with pytest.raises(ValueError, match="num_classes must be greater than or equal to 0 or none, not -1"):
        model.reset_classifier(-1)


def test_attention_maps_of_images() -> None:
    model = small(attention="performer + softmax + fourier", depth=3, pos="rope2d")
    maps = model.attention_maps(torch.randn(2, 3, 16, 16))
    assert [None if m is None else tuple(m.shape) for m in maps] == [(2, 2, 17, 17), (2, 2, 17, 17), None]
    assert torch.allclose(maps[1].sum(-1), torch.ones(2, 2, 17), atol=1e-5)
    seen = model.attention_inputs(torch.randn(2, 3, 16, 16))
    assert seen[0][2]["rotation"] is not None


def test_images_that_are_not_floats() -> None:
    with pytest.raises(ValueError, match="images must be floating-point numbers"):
        small()(torch.zeros(1, 3, 16, 16, dtype=torch.uint8))


def test_stored_precision_comes_back(tmp_path: Path) -> None:
    small(attention="performer").bfloat16().save_pretrained(tmp_path)
    assert {p.dtype for p in from_pretrained(tmp_path).parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("pos", ["sincos", "rope", "rope2d"])
def test_positions_do_not_lose_precision_with_the_weights(pos: str) -> None:
    model = small(pos=pos, img_size=64)
    half = small(pos=pos, img_size=64).bfloat16()
    tokens, cpu = torch.zeros(1, 257, 32), torch.device("cpu")
    for fine, coarse in zip(
        *([m.pos.added((16, 16), 1, cpu), *(m.pos.rotation(tokens.to(m.head.weight.dtype), (16, 16)) or ())] for m in (model, half)),
        strict=True,
    ):
        assert fine is coarse is None or torch.equal(fine, coarse)  # pyright: ignore[reportArgumentType]
    assert half(torch.randn(1, 3, 64, 64, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_conv_stems_look_at_every_pixel() -> None:
    for patch in (1, 2, 3, 4, 6, 8):
        model = small(stem="conv", img_size=24, patch_size=patch, pool="mean")
        x = torch.randn(1, 3, 24, 24, requires_grad=True)
        model(x).square().sum().backward()
        assert x.grad is not None
        assert (x.grad[..., 1:-patch, 1:-patch] != 0).all()  # the last lines may fall off, as with patches that do not divide the image


def test_attention_and_mlp_are_named_as_timm_names_them() -> None:
    names = set(small().state_dict())
    assert {
        "blocks.0.attn.qkv.weight",
        "blocks.0.attn.proj.bias",
        "blocks.1.mlp.fc1.weight",
        "patch_embed.proj.weight",
        "cls_token",
    } <= names


def test_maps_are_the_image_and_not_its_transpose() -> None:
    model = small(img_size=(8, 16), pos="none", attention="fourier")
    x = torch.zeros(1, 3, 8, 16)
    tokens, grid = model.start(x)
    assert grid == (2, 4)
    x[..., 0:4, 12:16] = 1.0
    changed = (model.start(x)[0] - tokens).abs().sum(-1)[0, 1:].unflatten(0, grid)
    assert changed.nonzero().tolist() == [[0, 3]]


@torch.no_grad()
def test_rotary_positions_are_relative() -> None:
    """Moving all tokens by the same way changes no score: q . k depends on the difference of places only."""
    from vixformer.nn.positions import Positions
    from vixformer.ops import rotate

    rope = Positions.member("rope")(32, 16, (1, 40), 0)
    q, k = torch.randn(2, 1, 1, 1, 16).unbind(0)
    cos, sin = rope.rotation(torch.zeros(1, 40, 32), (1, 40))
    score = lambda i, j: (rotate(q, cos[i], sin[i]) * rotate(k, cos[j], sin[j])).sum()  # noqa: E731
    assert torch.allclose(score(3, 7), score(23, 27), atol=1e-4)
    assert torch.allclose(cos, torch.tensor([[math.cos(p * 10_000 ** (-i / 8)) for i in range(8)] for p in range(40)]), atol=1e-5)
    after = Positions.member("rope")(32, 16, (1, 40), 1).rotation(torch.zeros(1, 41, 32), (1, 40))
    assert torch.equal(after[0][:40], cos)  # the class token is at place 0, the first patch at 1
    assert not torch.allclose(score(3, 7), score(3, 17), atol=1e-2)

    axial = Positions.member("rope2d")(32, 16, (5, 8), 1)
    cos, sin = axial.rotation(torch.zeros(1, 41, 32), (5, 8))
    assert torch.equal(cos[0], torch.ones(8))  # the class token stays
    turns = [[math.cos(along * 100 ** (-i / 4)) for along in (column, row) for i in range(4)] for row in range(5) for column in range(8)]
    assert torch.allclose(cos[1:], torch.tensor(turns), atol=1e-5)
    place = lambda row, column: 1 + row * 8 + column  # noqa: E731
    assert torch.allclose(score(place(0, 1), place(2, 4)), score(place(2, 3), place(4, 6)), atol=1e-4)
    assert torch.equal(cos[place(0, 0), 4:], cos[place(0, 5), 4:])  # rows turn half of the pairs,
    assert torch.equal(cos[place(0, 3), :4], cos[place(4, 3), :4])  # columns the other half


def test_layerwise_linformer_has_one_matrix(tmp_path: Path) -> None:
    model: Any = small(attention="linformer(rank=8, share=layerwise)", depth=3)
    assert len({m.core.E.data_ptr() for m in model.attentions()}) == 1
    alone = small(attention="linformer(rank=8, share=kv)", depth=3)
    assert parameters(alone).all - parameters(model).all == 2 * 17 * 8
    model.save_pretrained(tmp_path)
    again: Any = from_pretrained(tmp_path)
    assert len({m.core.E.data_ptr() for m in again.attentions()}) == 1
    x = torch.randn(1, 3, 16, 16)
    assert torch.equal(model(x), again(x))


def test_the_stored_layout_is_the_expanded_one(tmp_path: Path) -> None:
    small(attention="first(performer(kernel=relu, features=8), n=1)").save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["attention"] == "performer(kernel=relu, features=8) + softmax"
    assert stored["model"] == "vit"


def test_damaged_checkpoints_are_one_sentence(tmp_path: Path) -> None:
    model = small(attention="performer")
    model.save_pretrained(tmp_path)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    good_weights, good_config = weights.read_bytes(), config.read_text()

    def complaint() -> str:
        with pytest.raises(ValueError, match=r".") as caught:
            from_pretrained(tmp_path)
        return str(caught.value)

    for size in (0, 4, 100, len(good_weights) - 10):
        weights.write_bytes(good_weights[:size])
        assert "damaged or cut short" in complaint()
    weights.unlink()
    assert "missing" in complaint()
    weights.write_bytes(good_weights)
    values = json.loads(good_config)
    for change, words in [
        (dict(model=["vit"]), "is not a model's configuration"),
        (dict(embed_dim=64), "has another shape of"),
        (dict(depth=1), "has the unknown blocks.1"),
        (dict(depth=3), "lacks blocks.2"),
        (dict(attention="softmax"), "has the unknown blocks.0.attn.core.projection"),
        (dict(attention="nope"), "unknown attention"),
        (dict(colour="red"), 'unknown option of .* "colour"'),
        (dict(depth="two"), "depth must be a whole number"),
        (dict(model="resnet"), 'unknown model "resnet"'),
    ]:
        config.write_text(json.dumps({**values, **change}))
        assert re.search(words, complaint()), words
    for text in ("", "[]", "{", "{}", "null"):
        config.write_text(text)
        assert re.search("is not (JSON|a model's configuration)", complaint())
    config.unlink()
    assert "has no model: give a run folder, a folder with config.json and its weights, or owner/name of the hub" in complaint()


def test_stochastic_depth_drops_whole_images_and_keeps_the_mean() -> None:
    from vixformer.nn.block import DropPath

    drop = DropPath(0.25)
    x = torch.ones(4000, 2, 3)
    out = drop.train()(x)
    assert set(out.flatten(1).std(1).tolist()) == {0.0}
    assert out.mean().item() == pytest.approx(1.0, abs=0.05)
    assert torch.equal(drop.eval()(x), x)


@torch.no_grad()
def test_every_kernel_builds_in_a_vit() -> None:
    for name in Kernel.members:
        assert small(attention=f"performer(kernel={name})")(torch.randn(1, 3, 16, 16)).shape == (1, 10)
