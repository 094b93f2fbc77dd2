"""How much of several recipes fits into a given time: fewer epochs, then less of the data, the same for all of them."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor

from vixformer.config import Recipe, Share
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import Reader, load_parts, pick_device

LEAST_EPOCHS = 4
"""Below that, less data rather than fewer epochs: a rate that rises and falls needs some time."""
SMALLEST, FEWEST = 0.01, 100
"""The smallest part of the data that is worth training on, and the smallest number of images: each class must be in
it."""
AROUND, MEASURING = 1.0, 3.0
"""Seconds of a run that are neither training nor evaluation, and of what `train.measure` adds to them."""
STEPS = 8
LONG = 1.0
"""Seconds of a step that cold memory makes hardly longer."""
SLACK = 1.15
"""How much longer than the fastest a step takes on a quiet machine."""


@dataclass(frozen=True)
class Probe:
    """Seconds an image, measured, and how many images a whole run would see."""

    train_image: float
    evaluated_image: float
    train_images: int
    val_images: int
    test_images: int

    epochs: int
    """Of the recipe; a cut takes no more."""
    taught_images: int = 0
    """Images of distillation, before the first epoch, whatever the cut."""
    around: float = AROUND
    """Seconds of a run beside training and evaluation."""

    def seconds(self, epochs: int, fraction: float) -> float:
        an_epoch = self.train_images * self.train_image + self.val_images * self.evaluated_image
        always = self.test_images * self.evaluated_image + self.taught_images * self.train_image + self.around
        return min(epochs, self.epochs) * fraction * an_epoch + always


@dataclass(frozen=True)
class Cut:
    """What all recipes are cut to: no more epochs than these, and a part of the data."""

    epochs: PositiveInt
    fraction: Share
    measure: bool = True
    """Whether there is time to measure the memory of each run."""

    def applied(self, recipe: Recipe) -> Recipe:
        data = replace(recipe.data, fraction=recipe.data.fraction * self.fraction)
        train = replace(recipe.train.shortened(self.epochs), measure=recipe.train.measure and self.measure)
        return replace(recipe, data=data, train=train)


class Prober:
    """Times recipes. Timing all of them takes `seconds` or little more."""

    def __init__(self, seconds: float = math.inf, read: Reader | None = None, starting: float = 0.0) -> None:
        """`starting` is how long it takes to start the process of a run."""
        self.ends, self.read, self.starting = time.perf_counter() + seconds, read or Reader(), starting

    def __call__(self, recipe: Recipe, left: int = 1) -> Probe:
        """A few steps and batches in evaluation. `left` recipes share the time."""
        keep_freed_memory()
        device = pick_device(recipe.train.device)
        parts = load_parts(recipe, device, self.read(recipe.data))
        torch.manual_seed(0)
        model = recipe.build(parts.test.images).to(device)
        optimizer = make_optimizer(model, recipe.train)
        precision: torch.dtype = getattr(torch, recipe.train.precision)
        lower = torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32)
        generator = torch.Generator().manual_seed(0)
        batches = parts.train.batches(parts.train.order(generator)[: STEPS * recipe.train.batch_size], generator)
        share = (self.ends - time.perf_counter()) / left

        def step(images: Tensor, labels: Tensor) -> None:
            with lower:
                scores = model.train()(images)
            loss = F.cross_entropy(scores.float(), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss.item()

        def look() -> None:
            with torch.inference_mode(), lower:
                model.eval()(images).sum().item()

        steps = _usual((partial(step, *batch), len(batch[1])) for batch in _until(batches, 0.7 * share))
        images, _ = next(parts.test.plain())
        looks = _usual((look, len(images)) for _ in _until(iter(range(STEPS)), 0.3 * share))
        val = 0 if parts.val is None else len(parts.val.images)
        taught = recipe.train.distill * recipe.train.batch_size
        counts = (len(parts.train.images), val, len(parts.test.images), recipe.train.epochs, taught)
        return Probe(steps, looks, *counts, self.starting + AROUND + MEASURING * recipe.train.measure)


T = TypeVar("T")


def _until(items: Iterator[T], seconds: float) -> Iterator[T]:
    """Two of them, or one that took long, and more while there is time."""
    began = time.perf_counter()
    for i, item in enumerate(items):
        spent = time.perf_counter() - began
        if spent > seconds and (i >= 2 or spent > LONG):
            return
        yield item


def _usual(calls: Iterable[tuple[Callable[[], None], int]]) -> float:
    """Seconds an image: of the fastest call with some slack, or of the usual call beside other work. The first call,
    which finds memory cold, counts only if there is no other."""
    found = []
    for call, images in calls:
        began = time.perf_counter()
        call()
        found.append((time.perf_counter() - began) / images)
    return max(SLACK * min(found), statistics.median(found[1:] or found))


def starting() -> float:
    """Seconds that a process takes to be ready for a run."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import vixformer.training.loop"], check=True)
    return time.perf_counter() - began


def cut(recipes: Sequence[Recipe], probes: Sequence[Probe], runs_each: int, seconds: float) -> Cut:
    """The most epochs, at most those of the shortest recipe, with all of the data, or few with as much of it as the
    time allows. Where even the least does not fit for all, it is what those runs get that do."""

    def needed(epochs: int, fraction: float) -> float:
        return runs_each * sum(p.seconds(epochs, fraction) for p in probes)

    from_scratch = [recipe for recipe in recipes if recipe.train.weights is None]  # fine-tuning is short by itself
    epochs = min(recipe.train.epochs for recipe in from_scratch or recipes)
    while epochs > LEAST_EPOCHS and needed(epochs, 1.0) > seconds:
        epochs -= 1
    if needed(epochs, 1.0) <= seconds:
        return Cut(epochs, 1.0)
    base = needed(epochs, 0.0)
    fraction = (seconds - base) / (needed(epochs, 1.0) - base)
    fewest = max(FEWEST, *(1.2 * recipe.train.batch_size for recipe in recipes))  # a batch, beside what validates
    smallest = min(1.0, max(SMALLEST, fewest / min(p.train_images + p.val_images for p in probes)))
    if fraction >= smallest:
        return Cut(epochs, math.floor(1000 * fraction) / 1000)
    while epochs > 1 and needed(epochs, smallest) > seconds:
        epochs -= 1
    shortest = min(p.seconds(epochs, smallest) for p in probes)
    if shortest > seconds:
        least = math.ceil((needed(epochs, smallest) + shortest) / 60)
        raise ValueError(
            f"not one run fits: {len(recipes)} recipes, {runs_each} runs each, need about {least} minutes for an epoch"
            f" of {smallest:.0%} of the data: give --budget {least + 1}m, or fewer recipes or seeds"
        )
    return Cut(epochs, smallest)  # as many of the runs as fit; the others are listed
