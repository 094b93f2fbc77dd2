"""What the data pipeline costs beside a training step of the ViTs of hybrid/mnist and hybrid/cifar10, with and without
augmentation: part of `make bench`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.page import alone
from vixformer import load_recipe
from vixformer.config import Data, Recipe
from vixformer.data.dataset import Images
from vixformer.data.loader import Augmentation, Loader
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
COLORED = {
    "random resized crop": {"crop_scale": (0.35, 1.0)},
    "RandAugment, 2 operations": {"rand_augment": 2},
    "AutoAugment": {"auto_augment": "cifar"},
    "color jitter": {"color_jitter": 0.4},
    "random erasing": {"erase": 0.25},
    "mixup or CutMix": {"mixup": 0.8, "cutmix": 1.0},
    "RandAugment, erasing, mixup or CutMix": {"rand_augment": 2, "erase": 0.25, "mixup": 0.8, "cutmix": 1.0},
}
"""Of images of 32 x 32 in color, for hybrid/cifar10."""


def main() -> None:
    keep_freed_memory()
    gray = Data(name="fashion-mini", mean=(0.5,), std=(0.5,))  # images of MNIST's size, and always here
    _measure("hybrid/mnist/all-standard", AUGMENTATIONS, load_parts(Recipe(data=gray), torch.device("cpu")).train)
    pixels = torch.randint(256, (1000, 3, 32, 32), dtype=torch.uint8)
    colored = Images.all(pixels, torch.arange(1000) % 10, tuple("abcdefghij"))
    loader = Loader(colored, 128, (0.5,) * 3, (0.5,) * 3, (32, 32), torch.device("cpu"))
    _measure("hybrid/cifar10/all-standard", COLORED, loader)


def _measure(name: str, augmentations: dict[str, dict[str, Any]], plain: Loader) -> None:
    calls: dict[str, Callable[[], object]] = {}
    for what, options in augmentations.items():
        loader = replace(plain, augmentation=Augmentation(**options))
        order = torch.arange(len(loader.images))
        calls[what] = lambda loader=loader, order=order: next(loader.batches(order, torch.Generator().manual_seed(0)))
    recipe = load_recipe(name)
    model = recipe.build(plain.images)
    optimizer = make_optimizer(model, recipe.train)
    images, labels = next(plain.plain())

    def step() -> None:
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    with alone():  # what it prints stands in docs/training.md
        timings = interleaved({"step": step, **calls}, seconds=20.0)
    whole = timings.pop("step")
    print(f"{name}: a step of {len(images)} images: min {whole.min:.1f} ms, median {whole.median:.1f} ms")
    for what, t in timings.items():
        print(
            f"{what:<40} min {t.min:.2f} ms, median {t.median:.2f} ms: {100 * t.median / whole.median:.1f} % of a step"
        )


if __name__ == "__main__":
    main()
