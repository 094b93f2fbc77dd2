"""What recipes cost here: steps and inferences timed in turn, and peak memory beside exact attention that keeps all its
weights.

`python -m tools.runs time` and `python -m tools.runs memory` write docs/results/timings and docs/results/memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.page import alone
from tools.runs import RESULTS, TIMINGS
from vixformer.attention.layout import is_exact
from vixformer.config import Recipe
from vixformer.documents.reproduce import epoch_images
from vixformer.measure.latency import Ratio, paired_ratio, rounds, summarized
from vixformer.measure.machine import machine
from vixformer.measure.memory import Job, peak_memory
from vixformer.results.evidence import Effect, effect
from vixformer.training.allocator import keep_freed_memory
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts
from vixformer.writing import write_json

MEMORY = RESULTS / "memory"
NAIVE = "/naive"
"""After the name of a recipe with exact attention: the same with all attention weights in memory."""
REPEATS = 5
MEBI = 2**20
Kept = dict[str, dict[str, Any]]


def kept_timings(folder: Path = TIMINGS) -> Kept:
    """By recipe: what `time` measured; `session` is what was timed in turn with it."""
    return {
        name: {**t, "session": path.stem}
        for path in sorted(folder.glob("*.json"))
        for name, t in json.loads(path.read_text()).items()
    }


def kept_memory() -> Kept:
    """By recipe: what `memory` measured."""
    return {
        name: found for path in sorted(MEMORY.glob("*.json")) for name, found in json.loads(path.read_text()).items()
    }


def measure_time(
    recipes: Mapping[str, Recipe], path: Path, batch: int | None, count: int, device: torch.device
) -> None:
    """A training step with its optimizer, and inference, of the recipe's own batch unless another is given. Every call
    is kept, because calls of one round are pairs."""
    keep_freed_memory()
    steps, looks, facts = {}, {}, {}
    for name, recipe in recipes.items():
        parts = load_parts(recipe, device)
        model: Any = recipe.build(parts.test.images).to(device)
        images, labels = next(parts.train.plain())
        images, labels = images[: batch or len(images)], labels[: batch or len(labels)]
        optimizer = make_optimizer(model, recipe.train)

        def step(m: Any = model, x: Any = images, y: Any = labels, o: Any = optimizer) -> None:
            F.cross_entropy(m.train()(x), y).backward()
            o.step()
            o.zero_grad(set_to_none=True)

        def look(m: Any = model, x: Any = images) -> None:
            with torch.inference_mode():
                m.eval()(x)

        steps[name], looks[name] = step, look
        facts[name] = {"batch": len(images), "train_images": epoch_images(recipe)}
    with alone():
        trained, inferred = rounds(steps, 0, count, device), rounds(looks, 0, count, device)
    for name, fact in facts.items():
        for what, calls in (("step", trained[name]), ("inference", inferred[name])):
            fact |= {f"{what}_ms": vars(summarized(calls)), f"{what}_calls": [round(call, 4) for call in calls]}
        fact |= {"machine": machine(device)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, facts)


def measure_memory(recipes: Mapping[str, Recipe], path: Path, batch: int | None, device: str) -> None:
    """Peaks of a training step, `REPEATS` times each."""
    jobs: dict[str, Job] = {}
    for name, recipe in recipes.items():
        config: Any = recipe.build(load_parts(recipe, torch.device("cpu")).test.images).config
        job = Job({"name": config.owner.name, **vars(config)}, batch or recipe.train.batch_size)
        jobs[name] = job
        if is_exact(config.attention):
            jobs[name + NAIVE] = replace(job, model={**job.model, "attention": naive(config.attention)})
    found: dict[str, Any] = {name: {"batch": job.batch, "train_mb": []} for name, job in jobs.items()}
    for _ in range(REPEATS):
        for name, job in jobs.items():
            peaks = peak_memory([job], device)
            if peaks is None:
                raise ValueError("peak memory cannot be measured here: it needs /proc, or a CUDA device")
            found[name]["train_mb"].append(peaks[0].train / MEBI)
    for fact in found.values():
        fact |= {"machine": machine(torch.device(device))}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, found)


def naive(exact: str) -> str:
    return "softmax(naive=true)" if exact == "softmax" else f"{exact[:-1]}, naive=true)"


def comparable(times: Kept, names: Sequence[str]) -> bool:
    """Whether these were timed in turn, in batches of one size."""
    return (
        all(name in times for name in names)
        and len({(times[name]["session"], times[name]["batch"]) for name in names}) == 1
    )


def ratio_of(times: Kept, name: str, base: str, what: str) -> Ratio | None:
    """Of `step` or `inference`. By pairs of calls where every call was kept. Otherwise of the medians, with an interval
    from the spread of each as if they had not been taken in turn, which is wider."""
    if not comparable(times, [name, base]):
        return None
    mine, theirs = times[name], times[base]
    if f"{what}_calls" in mine and f"{what}_calls" in theirs:
        return paired_ratio(mine[f"{what}_calls"], theirs[f"{what}_calls"])
    found = _of_medians([mine[f"{what}_ms"]], [theirs[f"{what}_ms"]])
    middle, half = math.exp(found.mean), math.exp(found.half)
    return Ratio(middle, middle / half, middle * half)


def effect_of(times: Kept, one: Sequence[str], other: Sequence[str], what: str) -> Effect | None:
    """Of the logarithms of times, each side averaged over its recipes. Sides of equal length are pairs, each of one
    session."""
    pairs = list(zip(one, other, strict=True)) if len(one) == len(other) else [(a, b) for a in one for b in other]
    if not pairs or not all(comparable(times, pair) for pair in pairs):
        return None
    if all(f"{what}_calls" in times[name] for name in (*one, *other)):
        a, b = (_mean_calls([times[name][f"{what}_calls"] for name in side]) for side in (one, other))
        return effect(a, b)
    return _of_medians([times[name][f"{what}_ms"] for name in one], [times[name][f"{what}_ms"] for name in other])


def _mean_calls(calls: Sequence[Sequence[float]]) -> dict[int, float]:
    """By round, the mean of the logarithms."""
    return {i: sum(map(math.log, row)) / len(row) for i, row in enumerate(zip(*calls, strict=False))}


def _of_medians(one: Sequence[Mapping[str, float]], other: Sequence[Mapping[str, float]]) -> Effect:
    """The error of a median is that of a mean times the root of pi / 2; calls of one recipe were all that was kept of
    them."""

    def log(t: Mapping[str, float]) -> float:
        return math.log(t["median"])

    def variance(t: Mapping[str, float]) -> float:
        return math.pi / 2 * (t["sd"] / t["median"]) ** 2 / t["count"]

    mean = sum(map(log, one)) / len(one) - sum(map(log, other)) / len(other)
    error = math.sqrt(sum(map(variance, one)) / len(one) ** 2 + sum(map(variance, other)) / len(other) ** 2)
    count = min(int(t["count"]) for t in (*one, *other))
    return Effect(mean, error, count - 1, count, "welch")
