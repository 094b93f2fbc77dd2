"""Rows of a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vixformer import load_recipe
from vixformer.experiments.compare import Row
from vixformer.results.runs import Run


def row(
    name: str,
    attention: str,
    by_seed: dict[int, float],
    parameters: int = 1000,
    val_top1: float | None = None,
    split: int = 0,
) -> Row:
    recipe = load_recipe("quick/exact")
    recipe = replace(recipe, data=replace(recipe.data, split_seed=split))
    said = {"attention": attention, "parameters": parameters, "train_seconds": 1.0, "kept_bytes": 1}
    runs = [
        Run(
            Path(f"{name}-seed{seed}"),
            replace(recipe, train=replace(recipe.train, seed=seed)),
            {**said, "seed": seed, "test_top1": top1, "val_top1": val_top1},
            name,
            [],
        )
        for seed, top1 in by_seed.items()
    ]
    return Row(name, tuple(runs), rounds=(1.0,))
