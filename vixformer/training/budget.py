"""How much of several recipes fits into a given time: fewer epochs, then less of the data, the same for all of them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

from vixformer.config import Data, Recipe
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts, pick_device

LEAST_EPOCHS = 4
"""Below that, less data rather than fewer epochs: a rate that rises and falls needs some time."""
SMALLEST = 0.01
"""The least part of the data that is worth training on."""
AROUND = 3.0
"""Seconds of a run that are neither training nor evaluation."""
STEPS = 8
SLACK = 1.15
"""How much longer than the fastest a step takes."""


@dataclass(frozen=True)
class Probe:
    """Seconds an image, measured, and how many images a whole run would see."""

    train_image: float
    evaluated_image: float
    train_images: int
    val_images: int
    test_images: int

    epochs: int
    """At most; so many the recipe has."""
    taught_images: int = 0
    """Before the first epoch, whatever the cut."""

    def seconds(self, epochs: int, fraction: float) -> float:
        an_epoch = self.train_images * self.train_image + self.val_images * self.evaluated_image
        always = self.test_images * self.evaluated_image + self.taught_images * self.train_image + AROUND
        return min(epochs, self.epochs) * fraction * an_epoch + always


@dataclass(frozen=True)
class Cut:
    """What all recipes are cut to: no more epochs than these, and a part of the data."""

    epochs: int
    fraction: float

    def applied(self, recipe: Recipe) -> Recipe:
        """Schedules keep their shape. The test set is read at the end only: every epoch would take a large part of the time."""
        train = recipe.train
        if train.epochs <= self.epochs:
            return replace(recipe, train=replace(train, track_test=False), data=self._less(recipe))
        share = self.epochs / train.epochs
        shorter = replace(
            train,
            epochs=self.epochs,
            warmup=train.warmup * share,
            step_every=max(1, round(train.step_every * share)),
            restart_every=max(1, round(train.restart_every * share)),
            track_test=False,
        )
        return replace(recipe, train=shorter, data=self._less(recipe))

    def _less(self, recipe: Recipe) -> Data:
        return replace(recipe.data, fraction=recipe.data.fraction * self.fraction)


def probe(recipe: Recipe) -> Probe:
    """A few steps and batches in evaluation, the fastest of each: the first ones find memory cold."""
    keep_freed_memory()
    device = pick_device(recipe.train.device)
    parts = load_parts(recipe, device)
    torch.manual_seed(0)
    model: Any = recipe.build(parts.test.images).to(device)
    optimizer = make_optimizer(model, recipe.train)
    precision: torch.dtype = getattr(torch, recipe.train.precision)
    lower = torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32)
    generator = torch.Generator().manual_seed(0)
    batches = parts.train.batches(parts.train.order(generator)[: STEPS * recipe.train.batch_size], generator)
    times: list[float] = []
    for images, labels in batches:
        began = time.perf_counter()
        with lower:
            scores = model(images)
        loss = F.cross_entropy(scores.float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append((time.perf_counter() - began) / len(labels))
    images, _ = next(parts.test.plain())
    looks: list[float] = []
    for _ in range(STEPS):
        began = time.perf_counter()
        with torch.inference_mode(), lower:
            model.eval()(images).sum().item()
        looks.append((time.perf_counter() - began) / len(images))
    val = 0 if parts.val is None else len(parts.val.images)
    taught = recipe.train.distill * recipe.train.batch_size
    counts = (len(parts.train.images), val, len(parts.test.images), recipe.train.epochs, taught)
    return Probe(SLACK * min(times), SLACK * min(looks), *counts)


def cut(recipes: Sequence[Recipe], probes: Sequence[Probe], runs_each: int, seconds: float) -> Cut:
    """The most epochs, at most those of the shortest recipe, with all of the data, or few with as much of it as the time allows."""

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
    if fraction < SMALLEST:
        least = math.ceil(needed(epochs, SMALLEST) / 60)
        raise ValueError(
            f"{len(recipes)} recipes, {runs_each} runs each, need at least {least} minutes for {epochs} epochs of {SMALLEST:.0%} "
            f"of the data: give --budget {least + 1}m, or fewer recipes or seeds"
        )
    return Cut(epochs, round(fraction, 3))
