"""Time, measured so that it can be compared: everything warmed up, then one call of each, over and over, in an order that changes.

Who runs after whom matters: the one before leaves its data in the cache, or takes it.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

Key = TypeVar("Key")


@dataclass(frozen=True)
class Timing:
    """Milliseconds over `count` calls."""

    min: float
    median: float
    mean: float
    sd: float
    count: int


def interleaved(calls: dict[Key, Callable[[], Any]], seconds: float = 1.0, least: int = 5) -> dict[Key, Timing]:
    """Time each call `least` times or more, until `seconds` have passed for all of them together."""
    samples: dict[Key, list[float]] = {key: [] for key in calls}
    for call in calls.values():
        call()
        call()
    deadline = time.perf_counter() + seconds
    rounds, order = 0, random.Random(0)
    while rounds < least or time.perf_counter() < deadline:
        rounds += 1
        for key, call in order.sample(list(calls.items()), len(calls)):
            start = time.perf_counter()
            call()
            samples[key].append((time.perf_counter() - start) * 1e3)
    return {
        key: Timing(min(times), statistics.median(times), statistics.fmean(times), statistics.stdev(times), len(times))
        for key, times in samples.items()
    }


def settled(device: torch.device) -> None:
    """Wait until a device that works on its own has done what it was asked."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
