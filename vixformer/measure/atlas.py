"""The atlas in the package: what each attention gains or loses in accuracy. `python -m tools.atlas` makes it from
records.

A row says how far a mechanism was from exact attention under the same conditions, with its 95 % interval and the
records behind it. A cost is a time of the same model on a machine.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from vixformer.jsonfile import parse_json
from vixformer.registry import adapter

VERSION = 1
FILE = "atlas.json"
Start = Literal["scratch", "converted"]


@dataclass(frozen=True)
class Row:
    """Points of test top-1 are an attention's minus those of exact attention, or of the exact model it came from."""

    setting: str
    """The family and group of its recipes, such as atlas/cifar10-256."""
    data: str
    tokens: int
    start: Start
    name: str
    attention: str
    top1: float
    exact_top1: float
    points: float
    low: float
    high: float
    method: str
    """How the interval was made; `paired` is by seed and split."""
    verdict: Literal["shown", "ruled out", "open"]
    """Verdict on the difference, against half a point, with Holm's correction for the setting."""
    seeds: int
    epochs: int
    images: int
    """Training images per epoch."""
    parameters: int
    width: int
    depth: int
    records: tuple[str, ...]
    """Ids of the runs, in docs/results/records."""
    exact_records: tuple[str, ...]
    memory_ratio: float | None = None
    """Of the peaks of a training step that both sides' records have."""
    memory_interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Cost:
    """Median milliseconds of a batch, timed in turn with the exact model of its setting on a quiet machine."""

    setting: str
    name: str
    attention: str
    machine: str
    batch: int
    step_ms: float
    inference_ms: float
    step_ratio: float
    inference_ratio: float
    step_interval: tuple[float, float] | None = None
    inference_interval: tuple[float, float] | None = None
    """95 % of each ratio."""
    training_mb: float | None = None
    """Peak of a training step."""


@dataclass(frozen=True)
class Atlas:
    version: int
    rows: tuple[Row, ...]
    costs: tuple[Cost, ...]

    def to_json(self) -> str:
        """A line a row, so that a change can be read."""
        parts = [f' "{name}": [\n{_lines(some)}\n ]' for name, some in (("rows", self.rows), ("costs", self.costs))]
        return f'{{"version": {self.version},\n' + ",\n".join(parts) + "}\n"


def _lines(some: tuple[Row, ...] | tuple[Cost, ...]) -> str:
    return ",\n".join("  " + json.dumps(vars(one)) for one in some)


@cache
def read_atlas() -> Atlas:
    """The one in the package."""
    return parse_atlas((files("vixformer.measure") / FILE).read_text())


def parse_atlas(text: str) -> Atlas:
    return adapter(Atlas).validate_python(parse_json(text, FILE))
