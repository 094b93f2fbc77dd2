"""One model of every mechanism, side by side: what it costs and how long it takes here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vixformer.measure.cost import Parameters, multiply_adds, parameters
from vixformer.measure.latency import interleaved
from vixformer.models import create_model, list_attentions


@dataclass(frozen=True)
class Overview:
    attention: str
    tokens: int
    parameters: Parameters
    multiply_adds: int
    """An image."""
    ms: float
    """The least of several runs, a batch."""


def every_attention() -> list[str]:
    """Each word of the language, and the Performer with the kernel that is fastest beside its default."""
    words = list_attentions()
    at = words.index("performer") + 1
    return [*words[:at], "performer(kernel=relu)", *words[at:]]


def overview(
    attentions: Sequence[str], patch_sizes: Sequence[int] = (4, 1), batch: int = 8, seconds: float = 6.0
) -> list[Overview]:
    """ViTs (32 x 32 images, width 128, depth 4, 4 heads) that differ in nothing but attention, timed in turn."""
    rows: list[Overview] = []
    images = torch.randn(batch, 3, 32, 32)
    for patch in patch_sizes:
        models = {
            a: create_model("vit", attention=a, patch_size=patch, depth=4, pool="mean").eval() for a in attentions
        }
        with torch.inference_mode():
            timings = interleaved(
                {a: lambda model=model: model(images) for a, model in models.items()},
                seconds / len(patch_sizes),
                least=3,
            )
        rows += [
            Overview(a, m.num_tokens, parameters(m), multiply_adds(m, images[:1]), timings[a].min)
            for a, m in models.items()
        ]
    return rows
