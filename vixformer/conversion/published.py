"""ViT and DeiT weights as others publish them, as a model of ours: timm's state dicts, and those of transformers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from vixformer.backbones.vit import ViT
from vixformer.conversion.swap import convert
from vixformer.jsonfile import Values
from vixformer.models import create_model

HEAD_DIM = 64
"""Of every published ViT; a state dict does not say."""
NAMES = [
    (r"^module\.", ""),
    (r"^(vit|deit)\.", ""),
    (r"^pos_embed$", "pos.embed"),
    (r"^embeddings\.position_embeddings$", "pos.embed"),
    (r"^embeddings\.cls_token$", "cls_token"),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^(encoder\.layer|layers)\.(\d+)\.", r"blocks.\2."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.attention\.attention\.(q|k|v)[a-z]+\.", r".attn.\1."),
    (r"\.attention\.(q|k|v)_proj\.", r".attn.\1."),
    (r"\.attention\.(output\.dense|o_proj)\.", ".attn.proj."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"^(blocks\.\d+)\.output\.dense\.", r"\1.mlp.fc2."),
    (r"^layernorm\.", "norm."),
    (r"^classifier\.", "head."),
]
"""Their names to ours, one rule after the other."""
NEEDED = (
    "cls_token",
    "pos.embed",
    "patch_embed.proj.weight",
    "norm.weight",
    "blocks.0.attn.qkv.weight",
    "blocks.0.mlp.fc1.weight",
)
UNUSED = re.compile(r"^pooler\.")


def load_weights(
    state_dict: Mapping[str, Tensor],
    *,
    num_heads: int | None = None,
    img_size: int | None = None,
    attention: str = "softmax",
    norm_eps: float | None = None,
) -> Any:
    """A ViT with the weights of a state dict of timm or transformers, in evaluation mode. Positions are interpolated
    where `img_size` is not that of the weights.

    `num_heads` left out: heads of width 64; `norm_eps`, which a state dict does not say either: 1e-6 as in timm, or
    1e-12 as is usual in transformers, by the names. With another `attention` the model is converted right away.
    """
    for name, value in (("num_heads", num_heads), ("img_size", img_size)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    given = _unwrapped(state_dict)
    weights = _renamed(given)
    if norm_eps is None:
        norm_eps = 1e-12 if any("embeddings." in name for name in given) else 1e-6
    if scaled := next((name for name in given if re.search(r"layer_scale\d|\.ls\d\.|\.lambda\d", name)), None):
        raise ValueError(
            f"these are weights of a model with layer scale, such as DINOv2 ({scaled}), which our ViT has no"
            " place for: load the model with its own library and call vix.patch"
        )
    for name in NEEDED:
        if name not in weights:
            raise ValueError(
                f"this is no state dict of a ViT or DeiT as timm or transformers write it: it has no {name}"
            )
    if weights["patch_embed.proj.weight"].dim() != 4:
        raise ValueError("patch_embed.proj.weight is no convolution, (width, channels, patch, patch)")
    dim, channels, patch, _ = weights["patch_embed.proj.weight"].shape
    side = math.isqrt(weights["pos.embed"].shape[1] - 1)
    if side * side + 1 != weights["pos.embed"].shape[1]:
        raise ValueError(
            f"{weights['pos.embed'].shape[1]} positions are no class token and a square: a token for distillation, as"
            " every DeiT of transformers and timm's deit_*_distilled have, has no place in our ViT; timm's other DeiTs"
            " can be read"
        )
    if num_heads is None and dim % HEAD_DIM:
        raise ValueError(f"the width {dim} is no multiple of {HEAD_DIM}: give num_heads")
    options: Values = dict(
        img_size=side * patch,
        in_chans=channels,
        patch_size=patch,
        embed_dim=dim,
        depth=1 + max(int(found[1]) for name in weights if (found := re.match(r"blocks\.(\d+)\.", name))),
        num_heads=num_heads or dim // HEAD_DIM,
        mlp_dim=len(weights["blocks.0.mlp.fc1.weight"]),
        num_classes=len(weights["head.weight"]) if "head.weight" in weights else 0,
        qkv_bias="blocks.0.attn.qkv.bias" in weights,
        norm_eps=norm_eps,
    )
    model = _loaded(options, weights)
    if img_size is not None and img_size % patch:
        raise ValueError(f"img_size must be a multiple of the patch size: {img_size} is none of {patch}")
    if img_size is not None and img_size != side * patch:
        grid = (img_size // patch, img_size // patch)
        positions = model.pos.added(grid, 1, weights["pos.embed"].device)
        assert positions is not None
        weights["pos.embed"] = positions.detach()
        model = _loaded({**options, "img_size": img_size}, weights)
    return model if attention == "softmax" else convert(model, attention)[0]


from_timm = load_weights
"""Its earlier name."""


def _loaded(options: Values, weights: Mapping[str, Tensor]) -> ViT:
    model: ViT = create_model("vit", **options)
    own = model.state_dict()
    extra, missing = sorted(set(weights) - set(own)), sorted(set(own) - set(weights))
    other = sorted(name for name in own if name in weights and own[name].shape != weights[name].shape)
    for what, names in (
        ("has what our ViT has no place for", extra),
        ("lacks", missing),
        ("has another shape of", other),
    ):
        if names:
            raise ValueError(f"this state dict {what}: {', '.join(names[:3])}{' ...' if names[3:] else ''}")
    model.load_state_dict(dict(weights))
    return model.eval()


def _unwrapped(given: object) -> Mapping[str, Tensor]:
    """Checkpoints often have the state dict under a name."""
    for key in ("model", "state_dict"):
        if isinstance(given, Mapping) and isinstance(given.get(key), Mapping):
            given = given[key]
    if not isinstance(given, Mapping) or not all(isinstance(value, Tensor) for value in given.values()):
        raise ValueError(
            "load_weights takes a state dict, names and tensors as load_file or torch.load give them, not"
            f" {type(given).__name__}"
        )
    return given


def _renamed(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for name, value in state_dict.items():
        for pattern, ours in NAMES:
            name = re.sub(pattern, ours, name)
        if not UNUSED.match(name):
            out[name] = value
    for name in [name for name in out if re.search(r"\.attn\.q\.", name)]:
        names = [name.replace(".attn.q.", f".attn.{letter}.") for letter in "qkv"]
        if any(part not in out for part in names):
            raise ValueError(
                f"this state dict has {names[0]} without {next(part for part in names if part not in out)}"
            )
        parts = [out.pop(part) for part in names]
        out[name.replace(".attn.q.", ".attn.qkv.")] = torch.cat(parts)
    return out
