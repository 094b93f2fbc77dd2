"""The main job: several recipes under one protocol, over seeds, and one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vixformer.backbones.base import from_pretrained
from vixformer.config import Recipe
from vixformer.measure.cost import bytes_kept
from vixformer.measure.latency import interleaved
from vixformer.results.runs import BEST, SUMMARY, Spread, column, data_digest, folder_of, read_run
from vixformer.training.loop import Observer, train

TIMED_BATCH = 64


@dataclass(frozen=True)
class Row:
    """One recipe over its seeds."""

    name: str
    attention: str
    runs: int
    parameters: int
    test_top1: Spread
    val_top1: Spread | None
    train_seconds: Spread
    inference_ms: float
    """A batch of 64, the least of several, all models in turn."""
    kept: int
    """Bytes for backward, an image."""
    folders: tuple[Path, ...]


def compare(
    recipes: dict[str, Recipe],
    out: str | Path,
    *,
    seeds: int = 1,
    again: bool = False,
    observer: Callable[[str, Recipe, bool], Observer] | None = None,
) -> list[Row]:
    """Train what is not there yet, then measure all together. `observer(name, recipe, done)` is asked for one before each run."""
    out = Path(out)
    planned = [(name, replace(r, train=replace(r.train, seed=r.train.seed + i))) for name, r in recipes.items() for i in range(seeds)]
    folders: dict[str, list[Path]] = {name: [] for name in recipes}
    digests: dict[Any, str] = {}
    for name, recipe in planned:
        key = (recipe.data.name, recipe.data.root, recipe.data.resize)
        if key not in digests:
            source = recipe.data.source()
            digests[key] = data_digest(source.read("train"), source.read("test"))
        folder = folder_of(out, name, recipe, digests[key])
        folders[name].append(folder)
        done = (folder / SUMMARY).exists() and not again
        watching = observer(name, recipe, done) if observer else Observer()
        if not done:
            train(recipe, folder, resume=not again, observer=watching)
    return _rows(folders)


def _rows(folders: dict[str, list[Path]]) -> list[Row]:
    models: dict[str, Any] = {name: from_pretrained(paths[0] / BEST) for name, paths in folders.items()}
    images = {name: torch.randn(TIMED_BATCH, m.config.in_chans, *m.img_size) for name, m in models.items()}
    with torch.inference_mode():
        timings = interleaved({name: lambda m=m, x=images[name]: m(x) for name, m in models.items()}, seconds=0.5 * len(models))
    rows = []
    for name, paths in folders.items():
        summaries = [read_run(path).summary or {} for path in paths]
        test, seconds = column(summaries, "test_top1"), column(summaries, "train_seconds")
        assert test is not None and seconds is not None  # noqa: PT018
        first = summaries[0]
        rows.append(
            Row(
                name,
                first["attention"],
                len(paths),
                first["parameters"],
                test,
                column(summaries, "val_top1"),
                seconds,
                timings[name].min,
                bytes_kept(models[name].train(), images[name][:1]),
                tuple(paths),
            )
        )
    return rows
