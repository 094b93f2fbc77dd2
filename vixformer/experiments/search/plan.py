"""What is searched, and how: everything that workers of one study have in common."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

from vixformer.config import Recipe
from vixformer.experiments.search.space import Space
from vixformer.jsonfile import Values
from vixformer.registry import unknown

METRICS: dict[str, tuple[str, Literal["maximize", "minimize"]]] = {
    "val_top1": ("val_top1", "maximize"),
    "val_loss": ("val_loss", "minimize"),
    "inference_ms": ("inference_ms_min", "minimize"),
    "memory": ("peak_train_mb", "minimize"),
    "train_seconds": ("train_seconds", "minimize"),
    "parameters": ("parameters", "minimize"),
    "multiply_adds": ("multiply_adds", "minimize"),
    "kept_bytes": ("kept_bytes", "minimize"),
}
"""What can be asked for: where a summary has it, and which way is better. Never the test set."""
MEASURED = ("inference_ms", "memory")
"""Of these, what a run has only with `train.measure`."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is searched, and how. Workers that share a study have the same plan."""

    name: str
    recipe: Recipe
    space: Space
    trials: int | None = None
    """Left out with a grid: all of it."""
    sampler: Literal["tpe", "grid", "random"] = "tpe"
    pruner: Literal["median", "hyperband", "none"] = "median"
    metric: str = "val_top1"
    minimize: str | None = None
    """A second objective."""
    folds: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for metric in (self.metric, *([self.minimize] if self.minimize else [])):
            if metric not in METRICS:
                raise ValueError(unknown("metric", metric, METRICS))
        if self.minimize is not None and METRICS[self.minimize][1] != "minimize":
            raise ValueError(f"--minimize takes what is better when it is less, not {self.minimize}")
        if self.trials is None and self.sampler != "grid":
            raise ValueError(
                f"how many trials? give --trials; only a grid has an end, and the sampler is {self.sampler}"
            )
        unmeasured = [metric for metric in self.metrics if metric in MEASURED]
        if unmeasured and not self.recipe.train.measure:
            raise ValueError(
                f"{unmeasured[0]} is measured after training, and train.measure is off: leave --train.no-measure out"
            )
        self.space.check(self.recipe)

    @property
    def metrics(self) -> list[str]:
        return [self.metric, *([self.minimize] if self.minimize else [])]

    @property
    def depth(self) -> int:
        """Layers to choose attention for."""
        return sum(self.recipe.model.stage_depths)

    @property
    def wanted(self) -> int:
        size = self.space.size(self.depth)
        return int(min(self.trials or size, size)) if self.sampler == "grid" else int(self.trials or 0)

    def facts(self) -> Values:
        """What makes a study this one."""
        recipe = self.recipe.to_dict()
        recipe["data"].pop("root")
        said = repr((self.space, self.sampler, self.metrics, self.folds))
        return {"recipe": fingerprint(json.dumps(recipe, sort_keys=True)), "plan": fingerprint(said)}


def fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
