"""Kernels compiled for an instruction set, as wheels bring them, beside those compiled for this very processor.

`python -m benchmarks.instructions`. Forward and backward of the operations alone: 4 heads of 32, 64 x 65 and 4 x 1,024
tokens.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import torch

from benchmarks.page import table_command
from vixformer import ops
from vixformer.measure.latency import paired_ratio, rounds, summarized
from vixformer.ops import native
from vixformer.ops.native import build, targets

OPERATIONS = {
    "exact attention": lambda q, k, v: ops.softmax_attention(q, k, v),
    "ReLU features": lambda q, k, v: ops.linear_attention(q, k, v, ops.ReluMap(eps=1e-3)),
    "exponential features": lambda q, k, v: ops.linear_attention(q, k, v, ops.ExpMap(scale=0.4, weight=0.08, eps=1e-4)),
    "Nystrom": lambda q, k, v: ops.nystrom_attention(q, k, v, 64, 6),
}


def libraries() -> dict[str, ctypes.CDLL]:
    found = {}
    for name in (build.NATIVE, *targets.possible()):
        os.environ["VIX_NATIVE"] = name
        build.found.cache_clear()
        built = build.library()
        if built is None:
            raise SystemExit(build.status().reason)
        found[name] = built
    return found


def table(seconds: float) -> list[str]:
    made = libraries()
    others = [name for name in made if name != build.NATIVE]
    rows = []
    for batch, tokens in ((64, 65), (4, 1024)):
        for what, run in OPERATIONS.items():
            if what == "exact attention" and tokens > 512:  # PyTorch's own
                continue
            times = rounds({name: _with(library, run, batch, tokens) for name, library in made.items()}, seconds)
            here = times[build.NATIVE]
            ratios = " | ".join(str(paired_ratio(times[name], here)) for name in others)
            rows.append(f"| {what} | {batch} x {tokens:,} | {summarized(here).min:.2f} | {ratios} |")
    head = (
        f"| operation | batch x tokens | {build.NATIVE}, ms |"
        f" {' | '.join(f'{name} / {build.NATIVE}' for name in others)} |"
    )
    return [head, f"|---|---|{'--:|' * len(made)}", *rows]


def _with(library: ctypes.CDLL, run: Callable[..., torch.Tensor], batch: int, tokens: int) -> Callable[[], None]:
    q, k, v = (torch.randn(batch, tokens, 4, 32).transpose(1, 2).requires_grad_() for _ in range(3))
    grad = torch.randn(batch, 4, tokens, 32)

    def call() -> None:
        native.library = lambda: library
        torch.autograd.grad(run(q, k, v), (q, k, v), grad)

    return call


if __name__ == "__main__":
    table_command(
        __doc__, "instructions", 8.0, "the least of all; ratios are medians of pairs, with 95 % intervals", table
    )
