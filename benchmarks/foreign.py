"""Milliseconds that a forward pass of other people's models gains from linear attention: `python -m benchmarks.foreign
--write docs/your-models.md`, about six minutes.

Models of the size of ViT-S/16 with random weights, and one image of 224, 448 and 512 pixels: 196, 784 and 1,024 tokens,
and the class and register tokens of each family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

import vixformer as vix
from benchmarks.page import table_command
from tests.support.timm import PREPARE
from vixformer.bridges.seam import layers_of
from vixformer.measure.latency import paired_ratio, rounds

OWN = "its own"
ATTENTIONS = ("performer(kernel=relu)", "hedgehog", "lens")
SIDES = (224, 448, 512)
LEAST, DEPTH = 6, 12
SMALL: dict[str, Any] = dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536, patch_size=16)

Made = Callable[[int], Any]
"""A model for images of a side."""


def families(depth: int) -> dict[str, Made]:
    """Of transformers and timm."""
    theirs: dict[str, Any] = {
        "ViT": (transformers.ViTConfig, transformers.ViTModel),
        "DINOv2": (transformers.Dinov2Config, transformers.Dinov2Model),
        "DINOv3": (transformers.DINOv3ViTConfig, transformers.DINOv3ViTModel),
        "CLIP, vision": (transformers.CLIPVisionConfig, transformers.CLIPVisionModel),
        "SigLIP, vision": (transformers.SiglipVisionConfig, transformers.SiglipVisionModel),
    }

    def of_transformers(config: Any, kind: Any) -> Made:
        return lambda side: kind(config(**SMALL, num_hidden_layers=depth, image_size=side))

    words: dict[str, Any] = {}
    exec(PREPARE, words)  # timm asks for torchvision, which may not be there

    def of_timm(name: str, **options: Any) -> Made:
        return lambda side: words["create_model"](name, img_size=side, depth=depth, **options)

    return {
        **{f"transformers, {name}": of_transformers(*both) for name, both in theirs.items()},
        "timm, `vit_small_patch16_224`": of_timm("vit_small_patch16_224"),
        "timm, `deit_small_distilled_patch16_224`": of_timm("deit_small_distilled_patch16_224"),
        "timm, `eva02_small_patch14_224` with patches of 16": of_timm("eva02_small_patch14_224", patch_size=16),
    }


def measure(seconds: float, depth: int = DEPTH) -> list[str]:
    titles = ["model", "tokens", "ms", *(f"`{a}`" for a in ATTENTIONS)]
    lines = [f"| {' | '.join(titles)} |", f"|---|{'--:|' * (len(titles) - 1)}"]
    for name, made in families(depth).items():
        for side in SIDES:
            x, calls, tokens = torch.randn(1, 3, side, side), {}, 0
            for attention in (OWN, *ATTENTIONS):
                torch.manual_seed(0)
                model = made(side).eval()
                if attention != OWN:
                    vix.patch(model, attention)
                    tokens = layers_of(model)[0].core.shape.num_tokens
                calls[attention] = lambda model=model, x=x: model(x)
            with torch.inference_mode():
                taken = rounds(calls, seconds, LEAST)
            own = min(taken[OWN])
            gains = (f"{own - min(taken[a]):+.1f}, {paired_ratio(taken[a], taken[OWN])}" for a in ATTENTIONS)
            lines.append(f"| {' | '.join([name, f'{tokens:,}', f'{own:.1f}', *gains])} |")
    return lines


if __name__ == "__main__":
    conditions = "one image; milliseconds gained, and the time as a share of the model's own attention (SDPA)"
    table_command(__doc__, "foreign", 5.0, conditions, measure)
