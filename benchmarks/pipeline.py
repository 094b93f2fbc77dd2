"""What the data pipeline costs beside a training step of the ViTs of hybrid/mnist and hybrid/cifar10, with and without
augmentation: `python -m benchmarks.pipeline --write docs/training.md`, about a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.page import table_command
from vixformer import load_recipe
from vixformer.config import Data, Recipe
from vixformer.data.dataset import Images
from vixformer.data.loader import Augmentation, Loader
from vixformer.measure.latency import interleaved
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts

GRAY: dict[str, dict[str, Any]] = {
    "none": {},
    "`rotate`": {"rotate": 5.0},
    "`crop`, `flip`": {"crop": 4, "flip": True},
    "`crop`, `flip`, `rotate`": {"crop": 4, "flip": True, "rotate": 5.0},
}
"""`rotate` is what hybrid/mnist does."""
COLORED: dict[str, dict[str, Any]] = {
    "none": {},
    "`crop`, `flip`": {"crop": 4, "flip": True},
    "`cutout 8`": {"cutout": 8},
    "`crop_scale 0.35 1`": {"crop_scale": (0.35, 1.0)},
    "`rand_augment 2`": {"rand_augment": 2},
    "`auto_augment cifar`": {"auto_augment": "cifar"},
    "`color_jitter 0.4`": {"color_jitter": 0.4},
    "`erase 0.25`": {"erase": 0.25},
    "`mixup 0.8`": {"mixup": 0.8},
    "`cutmix 1`": {"cutmix": 1.0},
    "`repeats 3`": {"repeats": 3},
    "`balanced`": {"balanced": True},
    "`rand_augment 2`, `erase 0.25`, `mixup 0.8`, `cutmix 1`": {
        "rand_augment": 2, "erase": 0.25, "mixup": 0.8, "cutmix": 1.0,
    },
}  # fmt: skip
BATCH = 128


def measure(seconds: float) -> list[str]:
    keep_freed_memory()
    gray = Data(name="fashion-mini", mean=(0.5,), std=(0.5,))  # images of MNIST's size, and always here
    lines = ["| images | augmentation | ms a batch | share of a step |", "|---|---|--:|--:|"]
    digits = load_parts(Recipe(data=gray), torch.device("cpu")).train
    lines += _rows("28 x 28, gray", "hybrid/mnist/all-standard", GRAY, digits, seconds)
    pixels = torch.randint(256, (1000, 3, 32, 32), dtype=torch.uint8)
    colored = Images.all(pixels, torch.arange(1000) % 10, tuple("abcdefghij"))
    photographs = Loader(colored, BATCH, (0.5,) * 3, (0.5,) * 3, (32, 32), torch.device("cpu"))
    return lines + _rows("32 x 32, color", "hybrid/cifar10/all-standard", COLORED, photographs, seconds)


def _rows(images: str, name: str, augmentations: dict[str, dict[str, Any]], plain: Loader, seconds: float) -> list[str]:
    timings = interleaved(calls_of(name, augmentations, plain), seconds=seconds)
    step = timings.pop("step")
    lines = [f"| {images} | a step of `{name}` | {step.median:.1f} | |"]
    return lines + [
        f"| {images} | {what} | {t.median:.2f} | {100 * t.median / step.median:.1f} % |" for what, t in timings.items()
    ]


def calls_of(name: str, augmentations: dict[str, dict[str, Any]], plain: Loader) -> dict[str, Callable[[], object]]:
    """Each prepares the first batch of an epoch; and a training step."""
    calls: dict[str, Callable[[], object]] = {}
    for what, options in augmentations.items():
        loader = replace(plain, augmentation=Augmentation(**options))

        def batch(loader: Loader = loader) -> object:
            generator = torch.Generator().manual_seed(0)
            return next(loader.batches(loader.order(generator), generator))

        calls[what] = batch
    recipe = load_recipe(name)
    model = recipe.build(plain.images)
    optimizer = make_optimizer(model, recipe.train)
    images, labels = next(plain.plain())

    def step() -> None:
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return {"step": step, **calls}


if __name__ == "__main__":
    conditions = f"batches of {BATCH}, median times"
    table_command(__doc__, "augmentations", 25.0, conditions, measure)
