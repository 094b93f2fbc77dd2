"""Time, measured so that it can be compared: everything warmed up, then one call of each, over and over, in an order
that changes.

Who runs after whom matters: the one before leaves its data in the cache, or takes it.
"""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeVar

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


@dataclass(frozen=True)
class Ratio:
    """How many times as long one thing takes as another, and its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> Literal["faster", "slower", "undecided"]:
        return "faster" if self.high < 1 else "slower" if self.low > 1 else "undecided"

    def __str__(self) -> str:
        return f"{self.ratio:.2f}" + (
            f" ({self.low:.2f} to {self.high:.2f})" if math.isfinite(self.high) else " (too few calls to tell)"
        )


CPU = torch.device("cpu")
_clock: ContextVar[Callable[[], float]] = ContextVar("clock", default=time.perf_counter)


@contextlib.contextmanager
def processor_time() -> Iterator[None]:
    """Inside, calls on the CPU are timed by what this process computes, and not by the time that it waits for other
    processes. For one thread."""
    token = _clock.set(time.process_time)
    try:
        yield
    finally:
        _clock.reset(token)


def interleaved(
    calls: Mapping[Key, Callable[[], object]], seconds: float = 1.0, least: int = 5, device: torch.device = CPU
) -> dict[Key, Timing]:
    """Time each call `least` times or more, until `seconds` have passed for all of them together."""
    return {key: summarized(times) for key, times in rounds(calls, seconds, least, device).items()}


def rounds(
    calls: Mapping[Key, Callable[[], object]],
    seconds: float = 1.0,
    least: int = 5,
    device: torch.device = CPU,
    most: float = math.inf,
) -> dict[Key, list[float]]:
    """The milliseconds of every call, round by round: those of one round were taken next to each other and can be
    compared in pairs."""
    samples: dict[Key, list[float]] = {key: [] for key in calls}
    for call in calls.values():
        call()
        call()
    settled(device)
    deadline = time.perf_counter() + seconds
    done, order = 0, random.Random(0)
    while done < least or (done < most and time.perf_counter() < deadline):
        done += 1
        for key, call in order.sample(list(calls.items()), len(calls)):
            samples[key].append(_milliseconds(call, device))
    return samples


def summarized(times: Sequence[float]) -> Timing:
    spread = statistics.stdev(times) if len(times) > 1 else 0.0
    return Timing(min(times), statistics.median(times), statistics.fmean(times), spread, len(times))


def paired_ratio(these: Sequence[float], those: Sequence[float]) -> Ratio:
    """Of the times of two calls, round by round: the median of their ratios."""
    return Ratio(*median_interval([a / b for a, b in zip(these, those, strict=True)]))


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and what contains it with 95 % confidence, whatever the distribution: two of the values, by the
    binomial."""
    ordered = sorted(values)
    n = len(ordered)
    # how many of the 2^n ways there are that exactly, and in `below` at most, `rank` values lie below the median
    rank, ways = 0, 1
    below = ways
    while 40 * (below + (following := ways * (n - rank) // (rank + 1))) <= 2**n:
        rank, ways = rank + 1, following
        below += ways
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    if 40 * below > 2**n:  # too few values for any confidence
        return middle, 0.0, math.inf
    return middle, ordered[rank], ordered[n - 1 - rank]


def _milliseconds(call: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":  # what the device took, without the way there
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        settled(device)
        return start.elapsed_time(end)
    clock = _clock.get() if device.type == "cpu" else time.perf_counter
    start = clock()
    call()
    settled(device)
    return (clock() - start) * 1e3


def settled(device: torch.device) -> None:
    """Wait until a device that works on its own has done what it was asked."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()
