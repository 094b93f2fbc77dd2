"""Linear against exact attention as exported, in the programs that people deploy with: `python -m benchmarks.deployed
--write docs/shipping.md`, about five minutes. Width 128, 4 heads, projections included."""

from __future__ import annotations

import torch

from benchmarks.page import table_command
from benchmarks.peers import DIM, HEADS
from vixformer.measure.bench import LEAST
from vixformer.measure.latency import paired_ratio, rounds
from vixformer.measure.layer import Layer
from vixformer.measure.runtimes import exported_call

EXACT = "softmax"
LINEAR = ("performer(kernel=relu, features=64)", "lens", "linformer(rank=64)", "nystrom(landmarks=64)")
TOKENS = (64, 256, 1024, 4096)
BATCHES = (1, 64)
WAYS = (("onnxruntime", "float32"), ("onnxruntime", "int8"), ("openvino", "float32"))


def measure(seconds: float) -> list[str]:
    titles = ["in", "tokens", "batch", "exact, ms", *(f"`{a}`" for a in LINEAR)]
    lines = [f"| {' | '.join(titles)} |", f"|---|{'--:|' * (len(titles) - 1)}"]
    for runtime, dtype in WAYS:
        for tokens in TOKENS:
            layers = {a: Layer(a, DIM, HEADS, tokens).eval() for a in (EXACT, *LINEAR)}
            for batch in BATCHES:
                x = torch.randn(batch, tokens, DIM)
                threads = torch.get_num_threads()
                calls = {a: exported_call(layer, x, runtime, dtype, threads) for a, layer in layers.items()}
                taken = rounds(calls, seconds, LEAST)
                ratios = (str(paired_ratio(taken[a], taken[EXACT])) for a in LINEAR)
                cells = [f"{runtime}, {dtype}", f"{tokens:,}", str(batch), f"{min(taken[EXACT]):.2f}", *ratios]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    table_command(__doc__, "deployed", 1.5, "inference of one layer; times as a share of exact attention's", measure)
