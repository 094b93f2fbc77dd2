"""What `vix reproduce` prints beside a document's figures is in the same unit, and its hours are of the document's own
length."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.support.recipes import tiny
from vixformer import load_recipe
from vixformer.cli import main
from vixformer.commands.reproduce import _table
from vixformer.documents import DOCUMENTS
from vixformer.documents import reproduce as reproducing
from vixformer.documents.claims import Column, Document, Exhibit
from vixformer.documents.reproduce import PROBED, _kind, _speed, beside, epoch_images, forward_macs
from vixformer.experiments import compare as comparing
from vixformer.experiments.compare import TIMED_BATCH, Comparison, compare
from vixformer.recipes import RECIPES
from vixformer.results.runs import list_runs, read_run

COLUMNS = (
    Column("train_seconds", "seconds an epoch", "seconds_an_epoch"),
    Column("inference_seconds", "inference s", "inference_ms"),
    Column("inference_ms", "inference ms", "inference_ms"),
    Column("train_top1", "train top-1", "train_top1"),
    Column("memory", "memory, ViT = 100", "peak_train_mb", here="peak MiB"),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Document:
    """Its exact row is its last."""
    for name, attention in {"tiny/fourier": "fourier", "tiny/exact": "softmax"}.items():
        monkeypatch.setitem(RECIPES, name, partial(tiny, attention=attention, epochs=1))
    table = Exhibit("table", 1, "Two rows", ("tiny/fourier", "tiny/exact"), COLUMNS, "tiny/exact")
    document = Document("tiny", "A tiny document", 2026, "top1", (table,), (), ())
    document.__dict__["printed"] = {name: dict.fromkeys((c.printed for c in COLUMNS), "1.00") for name in table.rows}
    monkeypatch.setitem(DOCUMENTS, "tiny", document)
    return document


def test_ours_are_in_the_documents_units(small: Document, tmp_path: Path) -> None:
    found = compare({"tiny/exact": load_recipe("tiny/exact")}, tmp_path)
    (row,) = found.rows
    found = Comparison([replace(row, rounds=(128.0,) * 9)])
    (_, made) = beside(small, small.exhibits[0], found)
    run = read_run(row.folders[0])
    summary = run.summary or {}
    whole = epoch_images(run.recipe)
    assert summary["train_images"] < whole  # a part of the images, and no validation in the document
    assert made.ours["train_seconds"] == f"{summary['seconds_an_epoch'] * whole / summary['train_images']:.2f}"
    counts = reproducing._counts(run.recipe.data)
    assert made.ours["inference_seconds"] == f"{counts['test'] / TIMED_BATCH * 0.128:.2f}"
    assert made.ours["inference_ms"] == "128.00"
    assert made.ours["train_top1"] == f"{run.history()[-1]['train_top1']:.2f}"
    columns, _ = _table(small.exhibits[0], [replace(made, ours={**made.ours, "memory": "151.00"})])
    assert "peak MiB, here" in columns
    assert "memory, ViT = 100, here" not in columns


def test_the_row_that_others_are_compared_with_is_run_first(
    small: Document, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A short budget leaves out the last ones."""
    asked: list[str] = []
    monkeypatch.setattr(
        comparing,
        "compare",
        lambda recipes, *args, **options: asked.extend(recipes) or compare(recipes, *args, **options),
    )
    main(["reproduce", "tiny", "--table", "1", "--out", str(tmp_path)])
    assert asked == ["tiny/exact", "tiny/fourier"]
    rows = [line for line in (tmp_path / "tiny-table-1.md").read_text().splitlines() if line.startswith("| tiny/")]
    assert [row.split(" | ")[0] for row in rows] == ["| tiny/fourier", "| tiny/exact"]  # in the document's order
    assert len(list_runs(tmp_path)) == 2


def test_a_step_that_is_timed_is_small_whatever_the_backbone() -> None:
    """A CCT has 1,024 tokens and no patch size; batches of 32 of it took 40 s a step."""
    shown: list[int] = []
    for name in ("xformers/cifar10/cct", "hybrid/mnist/all-standard"):
        kind = _kind(load_recipe(name))
        hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, args: shown.append(len(args[0])))
        try:
            speed, update = _speed.__wrapped__(kind)
        finally:
            hook.remove()
        assert speed > 0 < update
        assert max(shown) * forward_macs(kind) <= max(PROBED, forward_macs(kind))
        shown.clear()


def test_hours_are_of_the_documents_own_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducing, "_speed", lambda recipe: (1e9, 0.5))
    recipe = load_recipe("cifar-kernels/relu")
    assert epoch_images(recipe) == 40_000  # of five folds
    seconds = recipe.train.epochs * 40_000 * (forward_macs(recipe) / 1e9 + 0.5 / recipe.train.batch_size)
    assert reproducing.hours(["cifar-kernels/relu"]) == pytest.approx(seconds / 3600)
