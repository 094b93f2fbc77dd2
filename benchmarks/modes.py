"""Attention modules in float32 and in bfloat16, ours beside those that others published: each side's best mode against
the other's.

`python -m benchmarks.modes --write docs/speed.md`. 4 x 1,025 tokens, width 128, 4 heads, M = rank = landmarks = 64,
projections included; eager. A mode is float32, autocast to bfloat16, or a module whose weights are bfloat16; the best
is the fastest of the three.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch

from benchmarks.attention import LINFORMER, NYSTROM, RELU, SIDE, SOFTMAX, WITHOUT_BIAS
from benchmarks.page import table_command
from benchmarks.peers import DIM, HEADS, peer_of
from vixformer.measure.bench import Conditions, call
from vixformer.measure.crossover import TorchAttention
from vixformer.measure.latency import Timing, interleaved
from vixformer.measure.layer import Layer

BATCH, TOKENS = 4, 1025
WORDS = (RELU, SOFTMAX, LINFORMER, NYSTROM, "lens", "prism", "hedgehog", "focused", "cosine", "softmax")
MODES = ("float32", "autocast", "bfloat16")
PEERS = (RELU, SOFTMAX, LINFORMER, NYSTROM)


def modes(module: Any, x: torch.Tensor, train: bool) -> dict[str, Callable[[], Any]]:
    eager = Conditions(train=train)
    return {
        "float32": call(module, x, eager),
        "autocast": call(deepcopy(module), x, Conditions(train=train, dtype="bfloat16")),
        "bfloat16": call(deepcopy(module).bfloat16(), x.bfloat16(), eager),
    }


def table(seconds: float) -> list[str]:
    x = torch.randn(BATCH, TOKENS, DIM)
    square = torch.randn(SIDE, SIDE)
    rows = []
    for train in (False, True):
        calls: dict[Any, Callable[[], Any]] = {"gemm": lambda: square @ square}
        limits = {}
        for word in WORDS:
            ours: Any = Layer(word, DIM, HEADS, TOKENS, qkv_bias=word not in WITHOUT_BIAS).eval()
            theirs = (
                peer_of(word, TOKENS) if word in PEERS else TorchAttention(DIM, HEADS) if word == "softmax" else None
            )
            limits[word] = (3 if train else 1) * BATCH * (ours.attention.core.macs(TOKENS) + 4 * DIM * DIM * TOKENS)
            for who, module in (("ours", ours), ("theirs", theirs)):
                if module is not None:
                    calls |= {
                        (word, who, mode): step for mode, step in modes(module.eval(), x, train).items() if _runs(step)
                    }
        timings = interleaved(calls, seconds)
        speed = SIDE**3 / timings["gemm"].min
        for word in WORDS:
            rows.append(_row(word, train, timings, limits[word] / speed))
    return [
        (
            "| attention | step | ours: float32, autocast, bfloat16, ms | theirs | best against best | bfloat16 against"
            " float32 | x limit |"
        ),
        "|---|---|--:|--:|--:|--:|--:|",
        *rows,
    ]


def _runs(step: Callable[[], Any]) -> bool:
    """Published modules cannot run in every mode: one of them mixes float32 with bfloat16."""
    try:
        step()
    except RuntimeError:
        return False
    return True


def _row(word: str, train: bool, timings: dict[Any, Timing], limit: float) -> str:
    def least(who: str) -> list[float]:
        return [timings[word, who, mode].min for mode in MODES if (word, who, mode) in timings]

    def shown(who: str) -> str:
        return " / ".join(
            f"{timings[word, who, mode].min:.2f}" if (word, who, mode) in timings else "-" for mode in MODES
        )

    ours, theirs = least("ours"), least("theirs")
    cells = shown("ours"), shown("theirs") if theirs else ""
    against = f"{min(theirs) / min(ours):.2f}" if theirs else ""
    step = "training" if train else "inference"
    return (
        f"| `{word}` | {step} | {cells[0]} | {cells[1]} | {against} | {ours[0] / min(ours[1:]):.2f} |"
        f" {min(ours) / limit:.2f} |"
    )


if __name__ == "__main__":
    table_command(__doc__, "modes", 15.0, "the least of all", table)
