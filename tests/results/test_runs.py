"""Run folders, and the comparison that fills them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.recipes import quick
from tests.support.rows import row
from vixformer.commands.comparison import comparison
from vixformer.data.dataset import data_digest
from vixformer.experiments.compare import Comparison, compare
from vixformer.recipes import load_recipe
from vixformer.results.evidence import effect
from vixformer.results.groups import Group, find_runs
from vixformer.results.runs import RECIPE, Run, content, list_runs, read_run, spread
from vixformer.training.observer import Observer


def test_the_same_content_is_not_run_twice(tmp_path: Path) -> None:
    recipes = dict(quick(name) for name in ("quick/exact", "quick/first-relu"))
    asked: list[tuple[str, int, bool]] = []

    def observer(name, recipe, done) -> Observer:
        asked.append((name, recipe.train.seed, done))
        return Observer()

    rows = compare(recipes, tmp_path, seeds=2, observer=observer).rows  # pyright: ignore[reportArgumentType]
    assert [(r.name, r.seeds, r.attention) for r in rows] == [
        ("quick/exact", 2, "softmax"),
        ("quick/first-relu", 2, rows[1].attention),
    ]
    assert rows[0].test_top1.count == 2
    assert rows[0].test_top1.sd is not None
    assert rows[0].inference is not None
    assert rows[0].inference.min > 0
    assert rows[0].spread("peak_train_mb") is None  # measure=False
    assert rows[0].folds is None
    assert rows[0].first["kept_bytes"] > 0
    assert [done for *_, done in asked] == [False] * 4
    asked.clear()
    again = compare(recipes, tmp_path, seeds=2, observer=observer).rows  # pyright: ignore[reportArgumentType]
    assert [done for *_, done in asked] == [True] * 4
    assert [r.test_top1 for r in again] == [r.test_top1 for r in rows]
    assert set(rows[0].by_seed) == {0, 1}
    columns, (_, other), notes = comparison(Comparison(rows))
    assert other[columns.index("difference")] == str(effect(rows[1].by_seed, rows[0].by_seed))
    assert any(
        "The difference is to quick/exact, in points. Intervals of 95 %: paired by seed and split." in note
        for note in notes
    )
    runs = list_runs(tmp_path)
    assert len(runs) == 4
    assert all(run.summary is not None and len(run.history()) == 1 for run in runs)
    changed = {name: replace(r, train=replace(r.train, lr=1e-4)) for name, r in recipes.items()}  # pyright: ignore
    asked.clear()
    compare(changed, tmp_path, observer=observer)  # pyright: ignore[reportArgumentType]
    assert [done for *_, done in asked] == [False] * 2


def test_folds(tmp_path: Path) -> None:
    recipes = dict([quick("quick/exact")])
    (row,) = compare(recipes, tmp_path, folds=3).rows  # pyright: ignore[reportArgumentType]
    assert (row.seeds, row.folds, len(set(row.folders))) == (1, 3, 3)
    validated = row.spread("val_top1")
    assert validated is not None
    assert (validated.count, row.test_top1.count) == (3, 3)
    assert sorted(run.recipe.data.fold for run in list_runs(tmp_path)) == [0, 1, 2]
    columns, (cells,), notes = comparison(Comparison([row]))
    assert cells[columns.index("validation %")] == str(validated)
    assert "3 folds" in notes[0]


def test_a_table_says_what_it_cannot_tell() -> None:
    rows = [
        row("exact", "softmax", {0: 70.0, 1: 72.0, 2: 71.0}),
        row("near", "lens", {0: 70.5, 1: 72.6, 2: 71.4}, 1021),
        row("far", "lens", {0: 75.0, 1: 77.5, 2: 76.0}, 985),
    ]
    columns, cells, notes = comparison(Comparison(rows))
    at, verdict = columns.index("difference"), columns.index("verdict")
    assert [c[at] for c in cells] == ["", "+0.50 ± 0.25", "+5.17 ± 0.72"]
    assert [c[verdict] for c in cells] == ["", "shown", "shown"]
    assert (
        "Intervals of 95 %: paired by seed and split. Verdicts are against a margin of 0.5 points, and together as a"
        " family of 2" in " ".join(notes)
    )
    assert "Not of the same size as exact, in parameters: near (+2.1%)." in notes
    columns, cells, notes = comparison(Comparison(rows), "far")
    assert [c[at] for c in cells] == ["-5.17 ± 0.72", "-4.67 ± 0.52", ""]
    assert not [note for note in notes if note.startswith("Open")]
    assert "difference" not in comparison(Comparison([row(r.name, r.attention, {0: 70.0}) for r in rows]))[0]


def test_verdicts_are_against_the_margin_given_beforehand() -> None:
    rows = [
        row("exact", "softmax", {0: 70.0, 1: 72.0, 2: 71.0}),
        row("same", "lens", {0: 70.1, 1: 71.9, 2: 71.02}),
        row("wild", "lens", {0: 68.0, 1: 75.0, 2: 71.4}),
    ]
    columns, cells, notes = comparison(Comparison(rows))
    at = columns.index("verdict")
    assert [c[at] for c in cells] == ["", "ruled out", "open"]
    assert 'Open: wild. "vix power" says how many seeds and minutes would decide.' in notes
    columns, cells, notes = comparison(Comparison(rows), margin=0.1)
    assert [c[at] for c in cells] == ["", "open", "open"]
    assert any("against a margin of 0.1 points" in note for note in notes)


def test_runs_of_other_splits_are_no_pairs() -> None:
    rows = [
        row("exact", "softmax", {0: 70.0, 1: 72.0, 2: 71.0}),
        row("other", "lens", {0: 75.0, 1: 77.5, 2: 76.0}, split=1),
    ]
    _, cells, notes = comparison(Comparison(rows))
    assert cells[1][4] == str(effect({0: 75.0, 1: 77.5, 2: 76.0}, {3: 70.0, 4: 72.0, 5: 71.0}))
    assert any("Intervals of 95 %: Welch." in note for note in notes)


def test_content_is_what_matters() -> None:
    recipe = load_recipe("quick/exact")
    assert content(recipe, "d") == content(replace(recipe, data=replace(recipe.data, root="/elsewhere")), "d")
    assert content(recipe, "d") != content(recipe, "e")
    assert content(recipe, "d") != content(replace(recipe, train=replace(recipe.train, seed=1)), "d")
    source = recipe.data.source()
    test = source.read("test")
    assert data_digest(test) == data_digest(source.read("test"))
    changed = test.pixels.clone()
    changed[0, 0, 0, 0] += 1
    assert data_digest(replace(test, pixels=changed)) != data_digest(test)


def test_a_run_says_its_name(tmp_path: Path) -> None:
    name, recipe = quick("quick/exact")
    (row,) = compare({name: recipe}, tmp_path).rows  # pyright: ignore[reportArgumentType]
    renamed = row.folders[0].rename(tmp_path / "mine-seed0")
    assert read_run(renamed).name == "quick/exact"
    assert [group.name for group in find_runs([tmp_path]).groups] == ["quick-exact"]
    (renamed / RECIPE).write_text(read_run(renamed).recipe.to_json())  # as runs of before have it
    assert read_run(renamed).name is None
    assert [group.name for group in find_runs([tmp_path]).groups] == ["mine"]
    (renamed / RECIPE).write_text('{"name": 7}')
    with pytest.raises(ValueError, match="is no recipe: name should be a string, not 7"):
        read_run(renamed)


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is no run folder: it has no recipe.json"):
        read_run(tmp_path)
    (tmp_path / "recipe.json").write_text(load_recipe("quick/exact").to_json())
    assert read_run(tmp_path).summary is None
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(ValueError, match=r"summary.json is not JSON"):
        read_run(tmp_path)


def test_spread() -> None:
    assert str(spread([80.0])) == "80.00"
    assert str(spread([80.0, 82.0])) == "81.00 ± 1.41"
    run = Run(Path("x"), load_recipe("quick/exact"), {"a": None})
    assert Group("x", (run, replace(run, summary={"a": 1.0}))).spread("a") == spread([1.0])
    assert Group("x", (replace(run, summary={}),)).spread("a") is None
