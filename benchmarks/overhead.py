"""What a change costs eager models: this checkout beside another one, in two processes that take turns.

`python -m benchmarks.overhead /path/to/other/checkout`; attentions after it replace the usual ones. CPU time of one
thread, so that other work disturbs little: one image and 16 images of 65 tokens, width 64, depth 6, 4 heads; training
steps and inference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from vixformer.measure.latency import paired_ratio

HERE = Path(__file__).parents[1]
WORDS = (
    "softmax",
    "performer(kernel=relu, features=64)",
    "performer",
    "lens",
    "prism",
    "hedgehog",
    "linformer",
    "nystrom(landmarks=16)",
    "fourier",
)
TURNS = 40
SIDE = """
import json, sys, time
import torch
import vixformer
torch.set_num_threads(1)
last = None
for line in sys.stdin:
    job = json.loads(line)
    if job != last:
        last, model = job, vixformer.create_model(
            "vit", attention=job["attention"], img_size=32, patch_size=4, num_classes=10, embed_dim=64, depth=6,
            num_heads=4
        ).train(job["train"])
        images = torch.randn(job["batch"], 3, 32, 32)
        infer = torch.inference_mode()(lambda: model(images))
        run = (lambda: model(images).sum().backward()) if job["train"] else infer
        for _ in range(5):
            run()
    began = time.process_time()
    for _ in range(job["calls"]):
        run()
    print((time.process_time() - began) / job["calls"], flush=True)
"""


class Side:
    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-c", SIDE]
        self.process = subprocess.Popen(
            command, cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, job: dict[str, Any]) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main() -> None:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "vixformer").is_dir():
        raise SystemExit("which checkout? write python -m benchmarks.overhead /path/to/other/checkout")
    sides = {"this": Side(HERE), "other": Side(Path(sys.argv[1]))}
    for attention in sys.argv[2:] or WORDS:
        for train in (False, True):
            for batch, calls in ((1, 20), (16, 3)):
                job = {"attention": attention, "train": train, "batch": batch, "calls": calls}
                times: dict[str, list[float]] = {name: [] for name in sides}
                for turn in range(TURNS):
                    for name in sorted(sides, reverse=turn % 2 == 1):
                        times[name].append(sides[name].ask(job))
                least = ", ".join(f"{name} {1e3 * min(times[name]):.3f} ms" for name in sides)
                step = "training" if train else "inference"
                print(
                    f"{attention:36} {step:9} {batch:2}: {least}, this / other"
                    f" {paired_ratio(times['this'], times['other'])}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
