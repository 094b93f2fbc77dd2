"""Runs what a table or a figure of a document needs, and puts its figures beside ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from vixformer.config import Data, Recipe
from vixformer.data.base import DataSet, Images
from vixformer.documents.base import Document, Exhibit
from vixformer.documents.verdicts import Found, verdicts
from vixformer.experiments.compare import Comparison, Row
from vixformer.measure.cost import multiply_adds
from vixformer.recipes import load_recipe
from vixformer.results.evidence import Effect, effect
from vixformer.results.runs import column, read_run
from vixformer.training.optim import make_optimizer

PROBED_TOKENS = 4_096
"""In a batch that is timed."""


@dataclass(frozen=True)
class Beside:
    """A row of a table: what the document prints, and what our runs gave."""

    recipe: str
    printed: dict[str, str]
    ours: dict[str, str]
    """By the document's columns."""
    top1: str
    """Test top-1 at the epoch that validation chose, which is in none of the documents."""
    apart: Effect | None
    """Of test top-1 to the row that others are compared with."""


def beside(document: Document, exhibit: Exhibit, found: Comparison) -> list[Beside]:
    rows = {row.name: row for row in found.rows}
    base = rows.get(exhibit.base or "")
    made = []
    for name in exhibit.recipes():
        row = rows.get(name)
        printed = {c.printed: document.printed.get(name, {}).get(c.printed, "") for c in exhibit.columns}
        if row is None:
            made.append(Beside(name, printed, {}, "not run", None))
            continue
        apart = None if base is None or row is base else effect(row.by_seed, base.by_seed, _images(row))
        made.append(Beside(name, printed, _ours(exhibit, row), str(row.test_top1), apart))
    return made


def _ours(exhibit: Exhibit, row: Row) -> dict[str, str]:
    summaries = [read_run(folder).summary or {} for folder in row.folders]
    found = {c.printed: column(summaries, c.ours) for c in exhibit.columns if c.ours is not None}
    return {name: str(spread) for name, spread in found.items() if spread is not None}


def _images(row: Row) -> int:
    return (read_run(row.folders[0]).summary or {})["test_images"]


def judged(document: Document, found: Comparison) -> list[Found]:
    """The document's claims that these runs can say something of."""
    top1 = {row.name: row.by_seed for row in found.rows}
    runs = {row.name: [read_run(folder).summary or {} for folder in row.folders] for row in found.rows}
    steps = {name: {s["seed"]: s["ms_a_step"] for s in summaries if s.get("ms_a_step")} for name, summaries in runs.items()}
    return verdicts(document, {"top-1": top1, "step": steps}, {row.name: _images(row) for row in found.rows})


def hours(names: Iterable[str], tell: Callable[[str], None] = lambda _: None) -> float:
    """What these recipes would take on this machine at their own length: a step of one recipe of each kind is timed, and others are scaled
    by their multiply-adds."""
    return sum(_seconds(load_recipe(name), tell) for name in names) / 3600


def _seconds(recipe: Recipe, tell: Callable[[str], None]) -> float:
    images = _blank(recipe.data)
    part = recipe.data.fraction * (1 - recipe.data.val_fraction)
    shown = recipe.train.epochs * images * part
    return shown * forward_macs(recipe) / _rate(_kind(recipe), tell)


def _kind(recipe: Recipe) -> Recipe:
    """The recipe whose step is timed for this one: the same network with exact attention where it has q and k."""
    attention: Any = recipe.model
    return Recipe(data=Data(name=recipe.data.name, resize=recipe.data.resize), model=replace(attention, attention="softmax"))


def _blank(data: Data) -> int:
    """Training images of the whole set, whether it is here or not."""
    return DataSet.member(data.name.partition(":")[0]).counts["train"]


@cache
def forward_macs(recipe: Recipe) -> int:
    with torch.device("meta"):
        model: Any = recipe.build(_example(recipe.data))
    return multiply_adds(model, torch.empty(1, model.config.in_chans, *model.img_size, device="meta"))


def _example(data: Data) -> Images:
    """An image of the right shape, of a set that may not be here."""
    known: Any = DataSet.member(data.name.partition(":")[0])
    classes = tuple(getattr(known, "classes", ())) or tuple(f"class {i}" for i in range(200))
    return Images.all(torch.zeros(1, *known.shape, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64), classes)


@cache
def _rate(recipe: Recipe, tell: Callable[[str], None]) -> float:
    """Forward multiply-adds a second in training, from three steps; the first one finds memory cold."""
    tell(f"timing steps on {recipe.data.name}")
    model: Any = recipe.build(_example(recipe.data))
    tokens = (model.img_size[0] // getattr(recipe.model, "patch_size", 4)) ** 2
    batch = max(1, min(32, PROBED_TOKENS // tokens))
    images, labels = torch.randn(batch, model.config.in_chans, *model.img_size), torch.zeros(batch, dtype=torch.int64)
    optimizer, times = make_optimizer(model, recipe.train), []
    for _ in range(3):
        began = time.perf_counter()
        F.cross_entropy(model.train()(images), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - began)
    return batch * forward_macs(recipe) / min(times)


def exhibits(documents: Iterable[Document]) -> Sequence[tuple[Document, Exhibit]]:
    return [(document, exhibit) for document in documents for exhibit in document.exhibits]
