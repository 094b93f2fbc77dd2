"""What the data pipeline costs beside a training step of the ViT of hybrid/mnist, with and without augmentation: part of `make bench`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F

from benchmarks.page import alone
from vixformer import load_recipe
from vixformer.config import Data
from vixformer.measure.latency import interleaved
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts

AUGMENTATIONS = {
    "nothing": {},
    "rotate": {"rotate": 5.0},
    "crop, flip": {"crop": 4, "flip": True},
    "crop, flip, rotate": {"crop": 4, "flip": True, "rotate": 5.0},
}
"""`rotate` is what hybrid/mnist does."""


def main() -> None:
    keep_freed_memory()
    recipe = load_recipe("hybrid/mnist/all-standard")
    calls: dict[str, Callable[[], object]] = {}
    for name, options in AUGMENTATIONS.items():
        data = Data(name="fashion-mini", mean=(0.5,), std=(0.5,), **options)  # images of MNIST's size, and always here
        loader = load_parts(replace(recipe, data=data), torch.device("cpu")).train
        order = torch.arange(len(loader.images))
        calls[name] = lambda loader=loader, order=order: next(loader.batches(order, torch.Generator().manual_seed(0)))
    model = replace(recipe, data=Data()).build()
    optimizer = make_optimizer(model, recipe.train)
    images, labels = next(loader.plain())  # pyright: ignore[reportPossiblyUnboundVariable]

    def step() -> None:
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    with alone():  # what it prints stands in docs/training.md
        timings = interleaved({"step": step, **calls}, seconds=20.0)
    whole = timings.pop("step")
    print(f"a step of {len(images)} images: min {whole.min:.1f} ms, median {whole.median:.1f} ms")
    for name, t in timings.items():
        print(f"{name:<20} min {t.min:.2f} ms, median {t.median:.2f} ms: {100 * t.median / whole.median:.1f} % of a step")


if __name__ == "__main__":
    main()
