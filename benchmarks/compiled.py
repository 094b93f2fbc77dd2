"""Whole ViTs under torch.compile beside the same models as they are: a training step, and inference.

`python -m benchmarks.compiled`. Width 128, depth 6, 4 heads, MLP 256: 65 tokens in batches of 64, 1,024 tokens in
batches of 4. Compilation, which is not timed, takes a minute a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from benchmarks.page import table_command
from benchmarks.whole import LONG, SIZES
from vixformer import create_model
from vixformer.measure.bench import Conditions, call
from vixformer.measure.latency import paired_ratio, rounds, summarized

WORDS = (
    "softmax",
    "performer(kernel=relu, features=64)",
    "performer",
    "lens",
    "prism",
    "hedgehog",
    "focused",
    "cosine",
    "linformer",
    "nystrom",
    "fourier",
    "mlp",
)
SHAPES: dict[str, tuple[int, dict[str, Any]]] = {
    "65 tokens": (64, dict(img_size=32, patch_size=4)),
    "1,024 tokens": (4, LONG),
}


def row(attention: str, tokens: str, train: bool, seconds: float) -> str:
    batch, shape = SHAPES[tokens]
    images = torch.randn(batch, 3, 32, 32)
    torch.compiler.reset()
    eager = Conditions(train=train)
    model = create_model("vit", attention=attention, **shape, **SIZES)
    calls = {"eager": call(model, images, eager), "compiled": call(model, images, replace(eager, compile=True))}
    times = rounds(calls, seconds)
    ratio = paired_ratio(times["compiled"], times["eager"])
    least = [f"{summarized(times[key]).min:.1f}" for key in calls]
    return f"| `{attention}` | {tokens} | {'training' if train else 'inference'} | {' | '.join(least)} | {ratio} |"


def table(seconds: float) -> list[str]:
    rows = [
        row(attention, tokens, train, seconds) for tokens in SHAPES for attention in WORDS for train in (True, False)
    ]
    return [
        "| attention | tokens | step | eager, ms | compiled, ms | compiled / eager |",
        "|---|---|---|--:|--:|--:|",
        *rows,
    ]


if __name__ == "__main__":
    table_command(
        __doc__, "compiled", 10.0, "the least of all; the ratio is the median of pairs, with its 95 % interval", table
    )
