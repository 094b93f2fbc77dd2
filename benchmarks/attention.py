"""Attention modules, ours beside those that others published, in one interleaved run: `make bench`.

Inference and training (forward and backward) in float32, eager, projections included, width 128, 4 heads, M = rank =
landmarks = 64. The limit is the time that the multiply-adds, thrice those of forward for a training step, take at the
speed of a large matrix product measured in the same run. `--best` times ours compiled too.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.page import alone, put
from benchmarks.peers import DIM, HEADS, M, peer_of
from vixformer import list_attentions
from vixformer.measure.bench import Conditions, call
from vixformer.measure.cost import bytes_saved
from vixformer.measure.crossover import TorchAttention
from vixformer.measure.latency import Timing, interleaved
from vixformer.measure.layer import Layer
from vixformer.measure.machine import processor
from vixformer.options import first_paragraph

SHAPES = ((64, 65), (8, 785), (4, 1025), (1, 4097))
RELU, SOFTMAX = f"performer(kernel=relu, features={M})", f"performer(kernel=softmax, features={M})"
LINFORMER, NYSTROM = f"linformer(rank={M})", f"nystrom(landmarks={M})"
WITH_PEER = (RELU, SOFTMAX, LINFORMER, NYSTROM, "fourier")
WITHOUT_BIAS = (LINFORMER, NYSTROM)
"""Whose published modules have none on q, k and v."""
ALONE = tuple(
    a for a in list_attentions() if a not in ("performer", "linformer", "nystrom", "fourier", "mlp")
)  # mlp has weights by the token
SIDE = 1024


@dataclass(frozen=True)
class Cell:
    attention: str
    batch: int
    tokens: int
    ours: Timing
    peer: Timing | None
    limit_ms: float
    kept: int
    peer_kept: int | None

    @property
    def speedup(self) -> float | None:
        return None if self.peer is None else self.peer.min / self.ours.min


def measure(
    shapes: Sequence[tuple[int, int]] = SHAPES, seconds: float = 20.0, train: bool = False, best: bool = False
) -> tuple[list[Cell], float]:
    """Cells, and the speed of a matrix product in multiply-adds a second."""
    conditions = Conditions(train=train)
    cells: list[Cell] = []
    peak = 0.0
    square = torch.randn(SIDE, SIDE)
    for batch, tokens in shapes:
        x = torch.randn(batch, tokens, DIM)
        ours = {a: Layer(a, DIM, HEADS, tokens, qkv_bias=a not in WITHOUT_BIAS).eval() for a in (*WITH_PEER, *ALONE)}
        peers = {a: peer_of(a, tokens).eval() for a in WITH_PEER} | {"softmax": TorchAttention(DIM, HEADS).eval()}
        calls: dict[Any, Callable[[], Any]] = {"gemm": lambda: square @ square}
        for a, module in ours.items():
            calls[a, "ours"] = call(module, x, conditions)
            if a in peers:
                calls[a, "peer"] = call(peers[a], x, conditions)
            if best and a in peers:
                calls[a, "compiled"] = call(module, x, replace(conditions, compile=True))
        timings = interleaved(calls, seconds)
        peak = max(peak, SIDE**3 / timings["gemm"].min * 1e3)
        leaf = x.clone().requires_grad_()
        for a, module in ours.items():
            projections = 0 if a == "fourier" else 4 * DIM * DIM * tokens
            mechanism: Any = module.attention.mixer if a == "fourier" else module.attention.core
            limit = (
                (3 if train else 1) * batch * (mechanism.macs(tokens) + projections) / (SIDE**3 / timings["gemm"].min)
            )
            kept = bytes_saved(module, leaf)
            peer_kept = bytes_saved(peers[a], leaf) if a in peers else None
            ways = [timings[a, way] for way in ("ours", "compiled") if (a, way) in timings]
            fastest = min(ways, key=lambda timing: timing.min)
            cells.append(Cell(a, batch, tokens, fastest, timings.get((a, "peer")), limit, kept, peer_kept))
    return cells, peak


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def report(cells: Sequence[Cell], peak: float) -> str:
    lines = [
        (
            f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}; matrix product"
            f" {2 * peak / 1e9:.0f} GFLOP/s."
        ),
        "",
        (
            "| attention | batch x tokens | ours, ms (median) | peer, ms (median) | faster by | x limit | kept, MiB |"
            " peer, MiB | ratio |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for c in cells:
        peer = f"{c.peer.min:.2f} ({c.peer.median:.2f})" if c.peer else ""
        faster = f"{c.speedup:.2f}" if c.speedup else ""
        kept, ratio = ("", "") if not c.peer_kept else (f"{c.peer_kept / 2**20:.1f}", f"{c.kept / c.peer_kept:.2f}")
        lines.append(
            f"| `{c.attention}` | {c.batch} x {c.tokens} | {c.ours.min:.2f} ({c.ours.median:.2f}) | {peer} | {faster} "
            f"| {c.ours.min / c.limit_ms:.2f} | {c.kept / 2**20:.1f} | {kept} | {ratio} |"
        )
    lines.append("")
    families = {
        "Performer": (RELU, SOFTMAX),
        "Linformer": (LINFORMER,),
        "Nystrom": (NYSTROM,),
        "Fourier": ("fourier",),
        "All": WITH_PEER,
    }
    for title, words in families.items():
        speedups = [c.speedup for c in cells if c.attention in words and c.speedup]
        lines.append(
            f"{title}: faster by {geometric_mean(speedups):.2f} in the geometric mean, {min(speedups):.2f} in the worst"
            " cell."
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--seconds", type=float, default=20.0, help="for each shape")
    parser.add_argument("--best", action="store_true", help="ours compiled too, and the faster of both")
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    options = parser.parse_args()
    tables: dict[str, str] = {}
    with alone(publishes=options.write is not None):
        for marker, train in (("table", False), ("training", True)):
            tables[marker] = report(*measure(seconds=options.seconds, train=train, best=options.best))
            print(f"{'training' if train else 'inference'}\n\n{tables[marker]}\n")
    if options.write:
        for marker, table in tables.items():
            put(options.write, marker, table)


if __name__ == "__main__":
    main()
