"""Small models of transformers with random weights, a family each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vixformer.bridges.theirs import answer_to, scores_of

SIDE = 32
SIZES: dict[str, Any] = dict(
    hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=64, image_size=SIDE, patch_size=8
)


def families() -> dict[str, Callable[[], Any]]:
    t: Any = importlib.import_module("transformers")  # by name: reading its types takes pyright longer than all of ours

    text: dict[str, Any] = dict(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=99,
        bos_token_id=97, eos_token_id=98, pad_token_id=96,
    )  # fmt: skip
    both: dict[str, Any] = dict(text_config=text, vision_config=SIZES, projection_dim=16)
    return {
        "ViT": lambda: t.ViTForImageClassification(t.ViTConfig(**SIZES)),
        "DeiT": lambda: t.DeiTForImageClassification(t.DeiTConfig(**SIZES)),
        "DINOv2": lambda: t.Dinov2ForImageClassification(t.Dinov2Config(**SIZES)),
        "DINOv2 with registers": lambda: t.Dinov2WithRegistersForImageClassification(
            t.Dinov2WithRegistersConfig(**SIZES)
        ),
        "DINOv3": lambda: t.DINOv3ViTModel(t.DINOv3ViTConfig(**SIZES)),
        "SigLIP": lambda: t.SiglipVisionModel(t.SiglipVisionConfig(**SIZES)),
        "CLIP, vision tower": lambda: t.CLIPVisionModel(t.CLIPVisionConfig(**SIZES)),
        "CLIP": lambda: t.CLIPModel(t.CLIPConfig(**both)),
        "ViT-MAE": lambda: t.ViTMAEModel(t.ViTMAEConfig(**SIZES)),
        "BEiT": lambda: t.BeitForImageClassification(t.BeitConfig(**SIZES, use_relative_position_bias=True)),
    }


def made(family: str) -> Any:
    torch.manual_seed(0)
    model = families()[family]().eval()
    for parameter in model.parameters():  # biases and norms start alike, where nobody would miss them
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    return model


def images(count: int = 2) -> Tensor:
    return torch.randn(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def scores(model: Any, x: Tensor) -> Tensor:
    torch.manual_seed(2)  # ViT-MAE shuffles
    return scores_of(answer_to(model, x))
