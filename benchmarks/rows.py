"""Every model of "Vision Xformers" on CIFAR-10 at batch 64: memory and time here, beside the memory of its GPU.

Half an hour, with nothing else running: `python -m benchmarks.rows --write docs/speed.md`.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

import vixformer
from benchmarks.page import alone, put
from vixformer import load_recipe
from vixformer.attention.softmax import Softmax
from vixformer.measure.cost import bytes_kept
from vixformer.measure.latency import Timing, interleaved
from vixformer.measure.machine import processor
from vixformer.measure.memory import Job, Peak, peak_memory
from vixformer.nn import mlp
from vixformer.options import first_paragraph
from vixformer.training.allocator import keep_freed_memory

BATCH = 64
FOLDER = "xformers/cifar10/"
REPORTED = Path(vixformer.__file__).parent / "documents/xformers.csv"
EXACT = {"vi": "vit", "fn": "vit", "mi": "vit", "le": "levit", "cc": "cct", "cv": "cvt", "pi": "pit"}
"""By the first letters of a row, the row with exact attention."""


@dataclass(frozen=True)
class Row:
    name: str
    kept: int
    """Bytes for one image."""
    naive: int
    """Bytes for one image of the row with exact attention, were it computed as the paper did."""
    peak: Peak
    step: Timing
    inference: Timing
    gpu_gb: float


def gpu_memory() -> dict[str, float]:
    """Gigabytes that the paper reports, by recipe, in its order; with learned positions."""
    return {
        row["recipe"]: float(row["gpu_gb"])
        for row in csv.DictReader(REPORTED.read_text().splitlines())
        if row["table"] in ("1", "3", "5")
    }


def exact_of(name: str) -> str:
    hybrid, plain = ("hybrid-", name.removeprefix("hybrid-")) if name.startswith("hybrid-") else ("", name)
    return hybrid + EXACT[plain[:2]]


def kept(model: Any, naive: bool = False) -> int:
    """Bytes that a forward pass of one image keeps; `naive`: with all scores of exact attention in memory and nothing
    made again."""
    images = torch.randn(1, model.in_chans, *model.img_size)
    if not naive:
        return bytes_kept(model.eval(), images)
    with patch.object(mlp, "LARGE", math.inf), patch.object(Softmax, "forward", Softmax.reference):
        return bytes_kept(model.eval(), images)


def measure(names: list[str], rounds: int) -> list[Row]:
    keep_freed_memory()
    models: dict[str, Any] = {}
    for name in names:
        config: Any = load_recipe(FOLDER + name).model.filled()
        models[name] = config.owner(config)
    reported = gpu_memory()
    memory = {name: kept(model) for name, model in models.items()}
    naive = {name: kept(models[name], naive=True) for name in {exact_of(name) for name in names}}
    jobs = [
        Job({"name": m.name, **{f.name: getattr(m.config, f.name) for f in dataclasses.fields(m.config)}}, BATCH)
        for m in models.values()
    ]
    peaks = peak_memory(jobs)
    if peaks is None:
        raise SystemExit("peak memory cannot be measured here: it needs /proc")
    images, labels = torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))

    def step(model: Any) -> None:
        F.cross_entropy(model.train()(images), labels).backward()
        model.zero_grad(set_to_none=True)

    def infer(model: Any) -> None:
        with torch.inference_mode():
            model.eval()(images)

    steps = interleaved({name: lambda m=m: step(m) for name, m in models.items()}, 0, rounds)
    inferences = interleaved({name: lambda m=m: infer(m) for name, m in models.items()}, 0, rounds)
    return [
        Row(name, memory[name], naive[exact_of(name)], peak, steps[name], inferences[name], reported[FOLDER + name])
        for name, peak in zip(names, peaks, strict=True)
    ]


def report(rows: list[Row]) -> str:
    vit = next(row for row in rows if row.name == "vit")
    columns = [
        "kept, MiB",
        "of naive",
        "peak, MiB",
        "to ViT",
        "paper's GPU, GB",
        "to ViT",
        "step, ms (median)",
        "to ViT",
    ]
    columns += ["inference, ms (median)", "to ViT"]
    lines = [
        (
            f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}, batch {BATCH},"
            f" {vit.step.count} rounds."
        ),
        "",
        "| row | " + " | ".join(columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for r in rows:
        cells = [
            f"{BATCH * r.kept / 2**20:.0f}",
            f"{r.kept / r.naive:.2f}",
            f"{r.peak.train / 2**20:.0f}",
            f"{r.peak.train / vit.peak.train:.2f}",
            f"{r.gpu_gb:g}",
            f"{r.gpu_gb / vit.gpu_gb:.2f}",
            f"{r.step.min:.0f} ({r.step.median:.0f})",
            f"{r.step.min / vit.step.min:.2f}",
            f"{r.inference.min:.0f} ({r.inference.median:.0f})",
            f"{r.inference.min / vit.inference.min:.2f}",
        ]
        lines.append(f"| `{r.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    options = parser.parse_args()
    with alone(publishes=options.write is not None):
        table = report(measure([name.removeprefix(FOLDER) for name in gpu_memory()], options.rounds))
        print(table)
    if options.write:
        put(options.write, "rows", table)


if __name__ == "__main__":
    main()
