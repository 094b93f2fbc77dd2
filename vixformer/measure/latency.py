"""Time, measured so that it can be compared: everything warmed up, then one call of each, over and over, in an order that changes.

Who runs after whom matters: the one before leaves its data in the cache, or takes it.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
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


CPU = torch.device("cpu")


def interleaved(
    calls: Mapping[Key, Callable[[], Any]], seconds: float = 1.0, least: int = 5, device: torch.device = CPU
) -> dict[Key, Timing]:
    """Time each call `least` times or more, until `seconds` have passed for all of them together."""
    return {key: summarised(times) for key, times in rounds(calls, seconds, least, device).items()}


def rounds(
    calls: Mapping[Key, Callable[[], Any]], seconds: float = 1.0, least: int = 5, device: torch.device = CPU
) -> dict[Key, list[float]]:
    """The milliseconds of every call, round by round: those of one round were taken next to each other and can be compared in pairs."""
    samples: dict[Key, list[float]] = {key: [] for key in calls}
    for call in calls.values():
        call()
        call()
    settled(device)
    deadline = time.perf_counter() + seconds
    done, order = 0, random.Random(0)
    while done < least or time.perf_counter() < deadline:
        done += 1
        for key, call in order.sample(list(calls.items()), len(calls)):
            samples[key].append(_milliseconds(call, device))
    return samples


def summarised(times: Sequence[float]) -> Timing:
    spread = statistics.stdev(times) if len(times) > 1 else 0.0
    return Timing(min(times), statistics.median(times), statistics.fmean(times), spread, len(times))


def _milliseconds(call: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cuda":  # what the device took, without the way there
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        settled(device)
        return start.elapsed_time(end)
    start = time.perf_counter()
    call()
    settled(device)
    return (time.perf_counter() - start) * 1e3


def settled(device: torch.device) -> None:
    """Wait until a device that works on its own has done what it was asked."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
