"""Time and bytes a token from 1,024 to 16,384 tokens, batch x tokens constant, and 65,536 tokens at once: `python -m
benchmarks.growth`."""

from __future__ import annotations

import math

import torch

from benchmarks.page import table_command
from benchmarks.peers import DIM, HEADS
from vixformer import list_attentions
from vixformer.measure.bench import Conditions, Sizes, bench_attention, call
from vixformer.measure.latency import interleaved
from vixformer.measure.layer import Layer
from vixformer.measure.memory import Job, peak_memory

SHORT, LONG, LONGEST = 1024, 16384, 65536
NOT_LINEAR = ("softmax", "mlp")
"""Quadratic: exact attention, and token mixing, whose weights are too."""


def measure(seconds: float) -> list[str]:
    attentions = [a for a in list_attentions() if a not in NOT_LINEAR] + ["performer(kernel=relu, features=64)"]
    found = {
        n: {
            m.attention: m
            for m in bench_attention(
                attentions, Sizes(dim=DIM, heads=HEADS, tokens=(n,), batch=LONG // n, seconds=seconds, memory=False)
            )
        }
        for n in (SHORT, LONG)
    }
    lines = [
        (
            "| attention | us a token at 1,024 | at 16,384 | growth | kept, bytes a token at 1,024 | at 16,384 "
            "| 65,536 tokens, ms | training it, MiB |"
        ),
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    x = torch.randn(1, LONGEST, DIM)
    for a in attentions:
        short, long = found[SHORT][a], found[LONG][a]
        layer = Layer(a, DIM, HEADS, LONGEST)
        once = interleaved({a: call(layer, x, Conditions())}, 0.0, least=3)[a].min
        peaks = peak_memory([Job(dict(attention=a, dim=DIM, num_heads=HEADS, num_tokens=LONGEST), 1)])
        peak = peaks[0].train if peaks else math.nan
        times = [1e3 * m.time.min / LONG for m in (short, long)]
        kept = [m.kept / LONG for m in (short, long)]
        lines.append(
            f"| `{a}` | {times[0]:.3f} | {times[1]:.3f} | {times[1] / times[0]:.2f} | {kept[0]:.0f} | {kept[1]:.0f} |"
            f" {once:.0f} | {peak / 2**20:,.0f} |"
        )
    return lines


if __name__ == "__main__":
    table_command(__doc__, "growth", 15.0, "inference, float32", measure)
