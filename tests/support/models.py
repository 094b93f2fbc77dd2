"""A small model of every backbone, and images for it."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.attentions import WORDS
from vixformer import create_model

SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("vit", dict(embed_dim=32, depth=2, num_heads=2)),
    "cct": ("cct", dict(embed_dim=32, depth=2, num_heads=2, pool_stride=4)),
    "cvt": ("cvt", dict(dims=(16, 32), depths=(1, 1), num_heads=(1, 2), kernels=(3, 3), strides=(2, 2))),
    "cvt-cls": (
        "cvt",
        dict(dims=(16, 32), depths=(1, 1), num_heads=(1, 2), kernels=(3, 3), strides=(2, 2), pool="cls"),
    ),
    "levit": ("levit", dict(dims=(32, 64), depths=(1, 1), num_heads=(2, 4), head_dim=16)),
    "pit": ("pit", dict(embed_dim=32, depths=(1, 1), num_heads=(2, 4), head_dim=16)),
    "convtoken": ("convtoken", dict(conv_dims=(8, 16), embed_dim=32, num_heads=2)),
    "convtoken-grid": ("convtoken", dict(conv_dims=(8, 16), embed_dim=32, num_heads=2, tokens="grid", img_size=16)),
}

EVERY = [(name, word) for name in SMALL for word in WORDS]


def small(name: str, attention: str = "softmax", **options: Any) -> Any:
    model, sizes = SMALL[name]
    return create_model(model, attention=attention, **{**sizes, **options})


def images(model: Any, count: int = 3) -> torch.Tensor:
    return torch.randn(count, model.config.in_chans, *model.img_size)


SMALL_VIT = dict(img_size=16, patch_size=4, embed_dim=32, depth=2, num_heads=2)


def small_vit(**options: object) -> Any:
    return create_model("vit", **{**SMALL_VIT, **options}).eval()
