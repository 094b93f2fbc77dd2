"""Runs what a table or a figure of a document needs, and puts its figures beside ours."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
import torch.nn.functional as F

from vixformer.config import Data, Recipe
from vixformer.data.dataset import DataSet, Images, Part
from vixformer.documents.claims import Column, Document, Exhibit
from vixformer.documents.verdicts import Found, verdicts
from vixformer.experiments.compare import TIMED_BATCH, Comparison, Row
from vixformer.measure.cost import multiply_adds
from vixformer.recipes import load_recipe
from vixformer.results.evidence import Effect, effect
from vixformer.results.runs import spread
from vixformer.training.optim import make_optimizer

PROBED = 4 * 10**9
"""Multiply-adds of a forward pass that is timed, so that all kinds take about a minute."""


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
        images = row.first["test_images"]
        apart = None if base is None or row is base else effect(row.by_seed, base.by_seed, images)
        made.append(Beside(name, printed, _ours(exhibit, row), str(row.test_top1), apart))
    return made


def _ours(exhibit: Exhibit, row: Row) -> dict[str, str]:
    found = {c.printed: _values(c, row) for c in exhibit.columns if c.ours is not None}
    return {name: str(spread(values)) for name, values in found.items() if values}


def _values(c: Column, row: Row) -> list[float]:
    """Of every run, in the unit of the document where it can be: a budget trains on a part of the images, which makes
    an epoch shorter."""
    match c.ours:
        case "seconds_an_epoch":
            parts = zip(row.values("seconds_an_epoch"), row.values("train_images"), row.runs, strict=True)
            return [seconds * epoch_images(run.recipe) / images for seconds, images, run in parts]
        case "inference_ms":  # in turn, not beside other work
            whole = _counts(row.runs[0].recipe.data)["test"] / TIMED_BATCH / 1e3 if "seconds" in c.printed else 1.0
            return [row.inference.median * whole]
        case "train_top1":
            return [history[-1]["train_top1"] for history in row.histories() if history]
        case field:
            return [] if field is None else row.values(field)


def judged(document: Document, found: Comparison) -> list[Found]:
    """The document's claims that these runs can say something of."""
    top1 = {row.name: row.by_seed for row in found.rows}
    steps = {
        row.name: {s["seed"]: s["ms_a_step"] for run in row.runs if (s := run.summary or {}).get("ms_a_step")}
        for row in found.rows
    }
    images = {row.name: row.first["test_images"] for row in found.rows}
    return verdicts(document, {"top-1": top1, "step": steps}, images)


def hours(names: Iterable[str]) -> float:
    """What these recipes would take on this machine at their own length: a step of one recipe of each kind is timed,
    and the others' are scaled by their multiply-adds."""
    return sum(_seconds(load_recipe(name)) for name in names) / 3600


def epoch_images(recipe: Recipe) -> int:
    """Images of an epoch as a document has it: the training part of a fold, or all training images."""
    images = _counts(recipe.data)["train"]
    return images if recipe.data.folds is None else images - images // recipe.data.folds


def _seconds(recipe: Recipe) -> float:
    images = recipe.data.fraction * epoch_images(recipe)
    speed, update = _speed(_kind(recipe))
    return recipe.train.epochs * images * (forward_macs(recipe) / speed + update / recipe.train.batch_size)


def _kind(recipe: Recipe) -> Recipe:
    """The recipe whose step is timed for this one: the same network with exact attention where it has q and k."""
    attention = recipe.model
    return Recipe(
        data=Data(name=recipe.data.name, resize=recipe.data.resize), model=replace(attention, attention="softmax")
    )


def _counts(data: Data) -> Mapping[Part, int]:
    """Of the whole set, whether it is here or not."""
    return DataSet.member(data.name.partition(":")[0]).counts


@cache
def forward_macs(recipe: Recipe) -> int:
    with torch.device("meta"):
        model = recipe.build(example(recipe.data))
    return multiply_adds(model, torch.empty(1, model.in_chans, *model.img_size, device="meta"))


def example(data: Data) -> Images:
    """An image of the right shape, of a set that may not be here."""
    known = DataSet.member(data.name.partition(":")[0])
    names = getattr(known, "classes", None)
    classes = (
        names if isinstance(names, tuple) else tuple(f"class {i}" for i in range(200))
    )  # a folder's are not known yet
    return Images.all(torch.zeros(1, *known.shape, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64), classes)


@cache
def _speed(recipe: Recipe) -> tuple[float, float]:
    """Forward multiply-adds a second in training, and seconds of an update of all weights, from two steps: the first
    one finds memory cold. A large batch would take long on a slow machine, and a small one would make too much of the
    update."""
    model = recipe.build(example(recipe.data))
    batch = max(1, min(32, PROBED // forward_macs(recipe)))
    images, labels = torch.randn(batch, model.in_chans, *model.img_size), torch.zeros(batch, dtype=torch.int64)
    optimizer, passes, updates = make_optimizer(model, recipe.train), [], []
    for _ in range(2):
        began = time.perf_counter()
        F.cross_entropy(model.train()(images), labels).backward()
        passed = time.perf_counter()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        passes.append(passed - began)
        updates.append(time.perf_counter() - passed)
    return batch * forward_macs(recipe) / min(passes), min(updates)


def exhibits(documents: Iterable[Document]) -> Sequence[tuple[Document, Exhibit]]:
    return [(document, exhibit) for document in documents for exhibit in document.exhibits]
