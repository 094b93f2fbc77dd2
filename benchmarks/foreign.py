"""Milliseconds of a forward pass of models of transformers and timm, as they are and patched.

    python -m benchmarks.foreign

Random weights; ViT-S/16 and DINOv2-S/14 sizes, at images of 224, 448 and 512 pixels: 197, 785 and 1,025 tokens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor

import vixformer as vix
from vixformer.measure.latency import paired_ratio, rounds, summarized

SMALL: dict[str, Any] = dict(
    hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536, patch_size=16
)
ATTENTIONS = ("performer(kernel=relu, features=none)", "performer(kernel=relu)", "hedgehog", "lens")
SIDES = (224, 448, 512)
SECONDS, LEAST = 12.0, 6


def main() -> None:
    rows = []
    for side in SIDES:
        x = torch.randn(1, 3, side, side)

        def call(attention: str | None, side: int = side, x: Tensor = x) -> Callable[[], object]:
            torch.manual_seed(0)
            model = transformers.ViTModel(transformers.ViTConfig(**SMALL, image_size=side)).eval()
            if attention is not None:
                vix.patch(model, attention)
            return lambda: model(x)

        with torch.inference_mode():
            calls = {"sdpa": call(None), **{attention: call(attention) for attention in ("softmax", *ATTENTIONS)}}
            taken = rounds(calls, SECONDS, LEAST, torch.device("cpu"))
        timed = {name: summarized(times) for name, times in taken.items()}
        for name, time in timed.items():
            ratio = None if name == "sdpa" else str(paired_ratio(taken[name], taken["sdpa"]))
            rows.append(
                dict(tokens=(side // 16) ** 2 + 1, attention=name, ms=round(time.min, 1), median=round(time.median, 1),
                     ratio=ratio, count=time.count)
            )  # fmt: skip
            print(rows[-1], flush=True)
    facts = {"threads": torch.get_num_threads(), "torch": torch.__version__, "transformers": transformers.__version__}
    json.dump({**facts, "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
