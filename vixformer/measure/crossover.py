"""From how many tokens on a mechanism is faster than exact attention on this machine: bisection, each step decided with
confidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.jsonfile import Values
from vixformer.measure.bench import Layers, batch_of, call, on_threads
from vixformer.measure.latency import Ratio, paired_ratio, rounds
from vixformer.measure.layer import Layer
from vixformer.measure.machine import usable

FEWEST, MOST = 16, 16384
WITHIN = 1.1
"""How far apart the two ends of an answer may be."""
PATIENCE = 3
"""Attempts at an undecided comparison, each with twice the time of the one before."""


@dataclass(frozen=True)
class Probe(Ratio):
    """To exact attention: the median of pairs taken next to each other."""

    tokens: int = 0
    this_us: float = 0.0
    exact_us: float = 0.0
    """Least microseconds a token, of this and of exact attention."""


@dataclass(frozen=True)
class Crossing:
    attention: str
    slower_at: int | None
    """The most tokens at which it is slower; None where it is faster from the fewest on."""
    faster_at: int | None
    """The fewest at which it is faster; None where it is not, up to the most."""
    probes: tuple[Probe, ...]

    def side(self, patch: int) -> int | None:
        """Of a square image that has as many patches as `faster_at`."""
        return None if self.faster_at is None else patch * math.ceil(math.sqrt(self.faster_at))


class TorchAttention(nn.Module):
    """Exact attention as torch gives it, and nothing else around it."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, dim = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, dim))


def crossover(
    attention: str, sizes: Layers, against: str = "torch", watch: Callable[[Probe], None] = lambda _: None
) -> Crossing:
    """`against` torch's own exact attention, or any expression. Batches have about 4,096 tokens, unless `sizes`
    says."""
    probes: list[Probe] = []

    def slower(tokens: int) -> bool | None:
        probes.append(compared(attention, against, tokens, sizes))
        watch(probes[-1])
        verdict = probes[-1].verdict
        return None if verdict == "undecided" else verdict == "slower"

    return _bisected(attention, slower, probes)


def _bisected(attention: str, slower: Callable[[int], bool | None], probes: list[Probe]) -> Crossing:
    """Fewer tokens are taken to be no better for it."""
    low, first = FEWEST, slower(FEWEST)
    if first is False:
        return Crossing(attention, None, FEWEST, tuple(probes))
    high, found = FEWEST, first
    while found is not False:  # in steps of 4, because long ones take long
        if high == MOST:
            return Crossing(attention, low if found or first else None, None, tuple(probes))
        high = min(4 * high, MOST)
        found = slower(high)
        low = high if found else low
    low, high = _narrowed(low, high, slower)
    return Crossing(attention, None if first is None and low == FEWEST else low, high, tuple(probes))


def _narrowed(low: int, high: int, slower: Callable[[int], bool | None]) -> tuple[int, int]:
    """Slower at `low`, faster at `high`: as close as can be told. Where the lines touch, both ends of that are looked
    for."""
    while high > WITHIN * low:
        middle = round(math.sqrt(low * high))
        found = slower(middle)
        if found is None:
            return _edge(low, middle, lambda n: slower(n) is True), _edge(high, middle, lambda n: slower(n) is False)
        low, high = (middle, high) if found else (low, middle)
    return low, high


def _edge(good: int, other: int, clear: Callable[[int], bool]) -> int:
    """The number of tokens nearest to `other` at which the comparison is still clear."""
    while max(good, other) > WITHIN * min(good, other):
        middle = round(math.sqrt(good * other))
        good, other = (middle, other) if clear(middle) else (good, middle)
    return good


def compared(attention: str, against: str, tokens: int, sizes: Layers) -> Probe:
    """Twice as long, and again, until it is clear which is faster."""
    device = usable(sizes.device, "device")
    options: Values = dict(dim=sizes.dim, num_heads=sizes.heads, num_tokens=tokens)
    x = torch.randn(sizes.batch or batch_of(tokens), tokens, sizes.dim, device=device)
    exact = TorchAttention(sizes.dim, sizes.heads) if against == "torch" else Layer(against, **options)
    modules = {"this": Layer(attention, **options), "exact": exact}
    calls = {name: call(module.to(device), x, sizes) for name, module in modules.items()}
    taken: dict[str, list[float]] = {"this": [], "exact": []}
    probe = Probe(1.0, 0.0, math.inf, tokens)
    for attempt in range(PATIENCE):
        with on_threads(sizes.threads):
            times = rounds(calls, sizes.seconds * 2**attempt, least=8, device=device)
        for name, all_of_them in taken.items():
            all_of_them += times[name]
        ratio = paired_ratio(taken["this"], taken["exact"])
        least = (1e3 * min(taken[name]) / len(x) / tokens for name in ("this", "exact"))
        probe = Probe(ratio.ratio, ratio.low, ratio.high, tokens, *least)
        if probe.verdict != "undecided":
            break
    return probe
