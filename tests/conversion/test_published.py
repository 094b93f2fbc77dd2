"""Weights that others publish, with random numbers in them: the same scores."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import vixformer
from tests.support.attentions import distance
from vixformer import create_model, load_weights

SIZES: dict[str, Any] = dict(
    hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=16, patch_size=4
)


@pytest.mark.parametrize("old_names", [False, True])
@torch.no_grad()
def test_vit_of_transformers(old_names: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(**SIZES)
    config.num_labels = 5
    peer = transformers.ViTForImageClassification(config).eval()
    for p in peer.parameters():
        p.add_(0.1 * torch.randn_like(p))  # biases and norms start alike, where nobody would miss them
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
    assert distance(load_weights(weights)(x), peer(x).logits) <= 1e-4
    assert load_weights(weights, attention="hedgehog").attention_expression() == "hedgehog"


BLOCK = {
    "norm1.weight": (64,), "norm1.bias": (64,), "attn.qkv.weight": (192, 64), "attn.qkv.bias": (192,),
    "attn.proj.weight": (64, 64),
    "attn.proj.bias": (64,), "norm2.weight": (64,), "norm2.bias": (64,), "mlp.fc1.weight": (256, 64),
    "mlp.fc1.bias": (256,),
    "mlp.fc2.weight": (64, 256), "mlp.fc2.bias": (64,),
}  # fmt: skip
TIMM = {
    "cls_token": (1, 1, 64), "pos_embed": (1, 17, 64), "patch_embed.proj.weight": (64, 3, 4, 4),
    "patch_embed.proj.bias": (64,),
    **{f"blocks.{i}.{name}": shape for i in range(2) for name, shape in BLOCK.items()},
    "norm.weight": (64,), "norm.bias": (64,), "head.weight": (7, 64), "head.bias": (7,),
}  # fmt: skip
"""The names and shapes of timm's VisionTransformer, width 64, depth 2, patches of 4, 7 classes."""


@torch.no_grad()
def test_names_of_timm_and_other_sizes() -> None:
    torch.manual_seed(0)
    weights = {name: torch.randn(shape) / shape[-1] ** 0.5 for name, shape in TIMM.items()}
    model = load_weights(weights, num_heads=2)
    assert (model.config.depth, model.config.num_classes, model.config.img_size, model.config.mlp_dim) == (
        2,
        7,
        16,
        256,
    )
    own = model.state_dict()
    assert torch.equal(own["pos.embed"], weights["pos_embed"])
    assert all(torch.equal(own[name], value) for name, value in weights.items() if name != "pos_embed")
    assert len(own) == len(weights)
    for key in ("model", "state_dict"):  # as DeiT's own files, and others'
        wrapped: Any = {key: weights}
        assert torch.equal(load_weights(wrapped, num_heads=2).head.weight, weights["head.weight"])
    x = torch.randn(2, 3, 24, 24)
    larger = load_weights(weights, num_heads=2, img_size=24)
    assert larger.config.img_size == 24
    assert distance(larger(x), model(x)) <= 1e-5  # ours interpolates the same on the way
    square = weights["pos_embed"][:, 1:].unflatten(1, (4, 4)).permute(0, 3, 1, 2)
    as_timm = (
        F.interpolate(square, (6, 6), mode="bicubic", antialias=True, align_corners=False).flatten(2).transpose(1, 2)
    )
    assert distance(larger.state_dict()["pos.embed"][:, 1:], as_timm) <= 1e-5
    assert load_weights({f"module.{name}": value for name, value in weights.items()}, num_heads=2).config.depth == 2
    for odd in (dict(img_size=0), dict(img_size="48"), dict(num_heads=0)):
        with pytest.raises(ValueError, match="must be a whole number of at least 1, not"):
            load_weights(weights, **{"num_heads": 2, **odd})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("vit.pth", "takes a state dict, names and tensors as load_file or torch.load give them, not str"),
        (dict.fromkeys(TIMM, 1), "takes a state dict"),
        (
            {name: torch.zeros(shape) for name, shape in TIMM.items() if "fc1" not in name},
            "it has no blocks.0.mlp.fc1.weight",
        ),
        (
            {name: torch.zeros(shape) for name, shape in TIMM.items() if "blocks" not in name},
            "it has no blocks.0.attn.qkv.weight",
        ),
        ({"blocks.0.attn.q.weight": torch.zeros(4, 4)}, "has blocks.0.attn.q.weight without blocks.0.attn.k.weight"),
        (
            {**{n: torch.zeros(s) for n, s in TIMM.items()}, "patch_embed.proj.weight": torch.zeros(64, 48)},
            "is no convolution",
        ),
    ],
)
def test_what_is_no_state_dict(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_weights(weights)


def test_weights_without_a_classifier_and_without_a_number_of_heads() -> None:
    weights = {name: torch.zeros(shape) for name, shape in TIMM.items() if not name.startswith("head.")}
    config = load_weights(weights).config
    assert (config.num_classes, config.num_heads, config.qkv_bias) == (0, 1, True)
    plain = {name: value for name, value in weights.items() if not name.endswith("qkv.bias")}
    assert not load_weights(plain).config.qkv_bias


def test_a_size_that_patches_do_not_divide() -> None:
    with pytest.raises(ValueError, match="img_size must be a multiple of the patch size: 25 is none of 4"):
        load_weights({name: torch.zeros(shape) for name, shape in TIMM.items()}, num_heads=2, img_size=25)


def test_what_cannot_be_read() -> None:
    model = create_model("vit", img_size=16, patch_size=4, embed_dim=64, depth=1, num_heads=2)
    weights = dict(model.state_dict())
    with pytest.raises(ValueError, match="no state dict of a ViT or DeiT"):
        load_weights({"weight": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"has no place for: blocks.0.more"):
        load_weights({**weights, "blocks.0.more": torch.zeros(64)})
    scaled = {**weights, "blocks.0.ls1.gamma": torch.zeros(64)}
    with pytest.raises(ValueError, match=r"with layer scale, such as DINOv2 \(blocks.0.ls1.gamma\).* call vix.patch"):
        load_weights(scaled)
    dinov2 = {"dinov2.encoder.layer.0.layer_scale1.lambda1": torch.zeros(64)}
    with pytest.raises(ValueError, match=r"with layer scale, such as DINOv2"):
        vixformer.from_timm(dinov2)  # the earlier name
    with pytest.raises(ValueError, match=r"a token for distillation, .* has no place in our ViT"):
        load_weights({**weights, "pos.embed": torch.zeros(1, 18, 64)})
    with pytest.raises(ValueError, match=r"lacks: blocks.0.norm1.bias"):
        load_weights({name: value for name, value in weights.items() if name != "blocks.0.norm1.bias"})
    narrow = create_model("vit", img_size=16, patch_size=4, embed_dim=48, depth=1, num_heads=2)
    with pytest.raises(ValueError, match="the width 48 is no multiple of 64: give num_heads"):
        load_weights(narrow.state_dict())
