"""Time of one attention layer against the number of tokens, and a chart of it: part of `make bench`. Needs the `report`
extra."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.attention import LINFORMER, NYSTROM, RELU, SOFTMAX
from benchmarks.page import alone
from benchmarks.peers import DIM, HEADS
from vixformer.measure.bench import Sizes, bench_attention
from vixformer.options import first_paragraph
from vixformer.results.charts import time_against_tokens, write_chart

ATTENTIONS = ("softmax", RELU, SOFTMAX, LINFORMER, NYSTROM, "hedgehog", "fourier")
TOTAL = 8192
"""Tokens in a batch, so that a mechanism whose time a token is constant is a level line."""
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)


def measure(seconds: float) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for n in LENGTHS:
        sizes = Sizes(dim=DIM, heads=HEADS, tokens=(n,), batch=TOTAL // n, seconds=seconds, memory=False)
        found = bench_attention(ATTENTIONS, sizes)
        rows += [
            {"attention": r.attention, "tokens": n, "microseconds a token": 1e3 * r.time.min / TOTAL} for r in found
        ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--seconds", type=float, default=6.0, help="for each number of tokens")
    parser.add_argument("--write", type=Path, required=True, help="the chart, .svg or .png")
    options = parser.parse_args()
    with alone():
        rows = measure(options.seconds)
    for row in rows:
        print(f"{row['attention']!s:<42}{row['tokens']!s:>6} tokens  {row['microseconds a token']:.3f} us a token")
    title = f"One attention layer, inference, {torch.get_num_threads()} CPU threads: width {DIM}, {HEADS} heads"
    write_chart(time_against_tokens(rows, title), options.write)


if __name__ == "__main__":
    main()
