"""Time of one attention layer against the number of tokens, and a chart of it: part of `make bench`. Needs the `report` extra."""

from __future__ import annotations

import argparse
from pathlib import Path

import altair as alt
import torch

from benchmarks.attention import LINFORMER, NYSTROM, RELU, SOFTMAX
from benchmarks.peers import DIM, HEADS
from vixformer import create_attention
from vixformer.measure.latency import interleaved

ATTENTIONS = ("softmax", RELU, SOFTMAX, LINFORMER, NYSTROM, "hedgehog", "fourier")
TOTAL = 8192
"""Tokens in a batch, so that a mechanism whose time a token is constant is a level line."""


def measure(lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096), seconds: float = 6.0) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for n in lengths:
        x = torch.randn(TOTAL // n, n, DIM)
        layers = {a: create_attention(a, dim=DIM, num_heads=HEADS, num_tokens=n).eval() for a in ATTENTIONS}
        with torch.inference_mode():
            timings = interleaved({a: lambda layer=layer, x=x: layer(x) for a, layer in layers.items()}, seconds)
        rows += [{"attention": a, "tokens": n, "microseconds a token": 1e3 * t.min / TOTAL} for a, t in timings.items()]
    return rows


def chart(rows: list[dict[str, object]]) -> alt.LayerChart:
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("tokens:Q", scale=alt.Scale(type="log", base=2), title="tokens an image"),
        y=alt.Y("microseconds a token:Q", scale=alt.Scale(type="log")),
        color=alt.Color("attention:N", sort=list(ATTENTIONS), title=None, legend=alt.Legend(labelLimit=300)),
    )
    title = f"One attention layer, inference, {torch.get_num_threads()} CPU threads: width {DIM}, {HEADS} heads"
    return (base.mark_line() + base.mark_point(filled=True)).properties(width=520, height=280, title=title)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="for each number of tokens")
    parser.add_argument("--write", type=Path, required=True, help="the chart, .svg or .png")
    options = parser.parse_args()
    rows = measure(seconds=options.seconds)
    for row in rows:
        print(f"{row['attention']!s:<42}{row['tokens']!s:>6} tokens  {row['microseconds a token']:.3f} us a token")
    chart(rows).save(str(options.write))


if __name__ == "__main__":
    main()
