"""Rows of a comparison."""

from __future__ import annotations

from vixformer.experiments.compare import Row
from vixformer.measure.latency import Timing
from vixformer.results.runs import Spread, spread


def row(name: str, attention: str, by_seed: dict[int, float], parameters: int = 1000) -> Row:
    once = Timing(1.0, 1.0, 1.0, 0.0, 1)
    top1, seconds = spread(by_seed.values()), Spread(1.0, None, 1)
    return Row(
        name,
        attention,
        len(by_seed),
        None,
        parameters,
        top1,
        by_seed,
        None,
        seconds,
        once,
        kept=1,
        peak=None,
        folders=(),
    )
