"""Records of runs: lines that say all that pages need, and files that several machines and processes add to."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.recipes import tiny
from tests.support.runs import read_groups, write_run
from tools import runs as tool
from tools.runs import RECORDS
from vixformer.cli import main
from vixformer.ops import native
from vixformer.recipes import load_recipe
from vixformer.results.groups import find_runs
from vixformer.results.records import Record, add_records, read_records, record_of, recorded_runs, run_of
from vixformer.results.runs import Run, content, list_runs
from vixformer.results.schema import AVERAGES
from vixformer.training.loop import train

MOST_BYTES = 3_000_000
NAME = "hybrid/mnist/first-relu-64"


@pytest.fixture
def three() -> list[Record]:
    """Three seeds of one recipe."""
    found = [record for record in read_records(RECORDS / "hybrid.jsonl") if record["name"] == NAME]
    return sorted(found, key=lambda record: record["seed"])[:3]


def finished(folder: Path) -> Run:
    return next(run for run in list_runs(folder) if run.summary is not None)


def test_a_record_gives_back_its_run(runs: Path, tmp_path: Path) -> None:
    run = finished(runs)
    summary = run.summary or {}
    add_records(tmp_path, [record_of(run, "own/exact")])
    (back,) = recorded_runs(tmp_path)
    assert (back.name, back.folder.parent) == ("own/exact", tmp_path / "own.jsonl")
    assert back.folder.name.endswith(run.folder.name[-12:])  # known by the same content
    assert back.recipe == replace(run.recipe, data=replace(run.recipe.data, root=None))
    assert back.summary is not None
    assert back.summary.keys() == summary.keys()
    for key, value in summary.items():
        assert (
            back.summary[key] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)
            or key == "per_class"
        ), key
    for name, scores in summary["per_class"].items():
        assert back.summary["per_class"][name] == pytest.approx(scores), name
    for told, epoch in zip(back.history(), run.history(), strict=True):
        assert told.keys() == epoch.keys()
        assert all(told[key] == pytest.approx(value, rel=1e-3) for key, value in epoch.items())


def test_a_record_says_under_what_conditions_it_was_measured(runs: Path) -> None:
    run = finished(runs)
    said = record_of(run, "own/exact")
    machine = (run.summary or {})["machine"]
    assert said["conditions"]["precision"] == "float32"
    assert said["conditions"]["threads"] == machine["threads"] == 1
    assert said["conditions"]["code"]
    assert said["conditions"]["kernels"] is machine["kernels"]
    assert said["digest"] == (run.summary or {})["data_digest"]
    assert run.folder.name.endswith(content(run.recipe, said["digest"]))


def test_a_summary_says_whether_kernels_ran() -> None:
    if native.library() is None:
        pytest.skip("there is no compiler")
    torchs, compiled = (  # trigonometric features are float64, which no kernel takes
        train(tiny(attention=attention, epochs=1, fraction=0.02)).summary["machine"]
        for attention in ("performer(kernel=trig, features=16)", "fourier")
    )
    assert (torchs["kernels"], torchs["instructions"]) == (False, None)
    assert compiled["kernels"]
    assert compiled["instructions"] in ("avx512-bf16", "avx512", "avx2", "avx", "sse2", "sve", "neon", "generic")


def test_old_runs_say_nothing_of_kernels(three: list[Record]) -> None:
    conditions = three[0]["conditions"]
    assert (conditions["kernels"], conditions["instructions"], conditions["code"]) == (None, None, None)
    assert "kernels" not in (run_of(three[0], RECORDS).summary or {})["machine"]


def test_classes_of_a_large_set_are_three_counts_each(runs: Path) -> None:
    run = finished(runs)
    summary = run.summary or {}
    scores = {name: s for name, s in summary["per_class"].items() if name not in AVERAGES}
    assert len(scores) == 10
    bare = replace(run, summary={key: value for key, value in summary.items() if key != "confusion"})
    record = record_of(bare, "own/exact")
    assert record.get("classes", {}).keys() == {"names", "support", "predicted", "hits"}
    back = run_of(record, Path("own.jsonl")).summary or {}
    assert "confusion" not in back
    for name, told in summary["per_class"].items():
        assert back["per_class"][name] == pytest.approx(told), name


def test_kept_records_say_what_they_said_when_they_were_written() -> None:
    """A recipe is written without its defaults: where one of them changes, records are no longer of the content they
    are known by."""
    for record in read_records(RECORDS):
        assert content(run_of(record, RECORDS).recipe, record["digest"]) == record["id"], record["name"]


def test_kept_records_are_small() -> None:
    assert 0 < sum(path.stat().st_size for path in RECORDS.glob("*.jsonl")) < MOST_BYTES


def test_kept_files_are_as_they_would_be_written_again(tmp_path: Path) -> None:
    for path in RECORDS.glob("*.jsonl"):
        add_records(tmp_path, reversed(read_records(path)))
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path


def test_content_is_recorded_once_and_in_any_order_the_file_is_the_same(three: list[Record], tmp_path: Path) -> None:
    assert [add_records(tmp_path / "a", [record]) for record in three] == [1, 1, 1]
    assert add_records(tmp_path / "a", three) == 0
    assert add_records(tmp_path / "b", [*reversed(three), three[0]]) == 3
    assert (tmp_path / "a/hybrid.jsonl").read_bytes() == (tmp_path / "b/hybrid.jsonl").read_bytes()
    again: Any = {**three[0], "summary": {**three[0]["summary"], "test_top1": 1.0}}
    assert add_records(tmp_path / "a", [again]) == 0  # nothing is run twice, and what is known stays
    assert read_records(tmp_path / "a") == three


def test_a_folder_for_records_is_made_and_letters_stay_letters(three: list[Record], tmp_path: Path) -> None:
    conditions = {**three[0]["conditions"], "processor": "schneller Prozeßor"}
    assert add_records(tmp_path / "a/b", [{**three[0], "conditions": conditions}]) == 1  # pyright: ignore
    assert add_records(tmp_path / "a/b", three) == 2
    assert "schneller Prozeßor" in (tmp_path / "a/b/hybrid.jsonl").read_text()


def test_a_class_that_nobody_has_and_nobody_predicts_has_no_score(three: list[Record]) -> None:
    classes = {"names": ["a", "b"], "support": [4, 0], "predicted": [4, 0], "hits": [2, 0]}
    summary = run_of({**three[0], "classes": classes}, Path("x.jsonl")).summary or {}  # pyright: ignore
    assert summary["per_class"]["a"] == {"precision": 0.5, "recall": 0.5, "f1-score": 0.5, "support": 4.0}
    assert summary["per_class"]["b"] == {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0.0}


def test_two_processes_add_at_once(three: list[Record], tmp_path: Path) -> None:
    (tmp_path / "given").write_text(json.dumps(three))
    script = (
        "import json, sys; from pathlib import Path; from vixformer.results.records import add_records\ngiven ="
        " json.loads(Path(sys.argv[1], 'given').read_text())\nfor i in range(20): add_records(Path(sys.argv[1]),"
        " [{**given[int(sys.argv[2])], 'id': f'{sys.argv[2]}{i:011x}'}])"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(number)]) for number in (0, 1)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert len(read_records(tmp_path)) == 40


def test_git_merges_what_two_machines_added(three: list[Record], tmp_path: Path) -> None:
    def git(*words: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    def added(*records: Record) -> None:
        add_records(tmp_path / "docs/results/records", records)
        git("add", "docs", ".gitattributes")
        git("commit", "-m", "more")

    git("init", "-b", "main")
    (tmp_path / ".gitattributes").write_text(Path(".gitattributes").read_text())
    added(three[1])
    git("checkout", "-b", "other")
    added(three[0])
    git("checkout", "main")
    added(three[0], three[2])
    git("merge", "other")  # a conflict would be an error
    merged = tmp_path / "docs/results/records"
    assert read_records(merged) == three
    assert add_records(merged, []) == 0
    lines = (merged / "hybrid.jsonl").read_text().splitlines()
    (merged / "hybrid.jsonl").write_text("\n".join([*reversed(lines), lines[0]]) + "\n")
    assert read_records(merged) == three


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "short"}, "line 2, is no record: id String should match"),
        ({"seed": "one"}, "line 2, is no record: seed should be a valid integer"),
        ({"name": "../up"}, "line 2, is no record: name String should match"),
        (
            {"curve": {"val_top1": [1.0], "val_loss": []}},
            "line 2, is no record: the columns of its curve should have the same length",
        ),
        (
            {"classes": {"names": ["a", "b"], "confusion": [[1, 2]]}},
            "line 2, is no record: its classes should have as many counts as names",
        ),
        ({"summary": {}}, "it has no attention"),
        ({"recipe": {"model": {"name": "vit", "width": 3}}}, 'unknown option of vit "width"'),
        (None, "line 2, is not JSON"),
    ],
)
def test_a_damaged_line_is_named_and_the_others_are_read(
    three: list[Record], tmp_path: Path, change: Any, message: str
) -> None:
    path = tmp_path / "hybrid.jsonl"
    good, line = (
        json.dumps(three[0]),
        "<<<<<<< HEAD" if change is None else json.dumps({**three[1], "id": "0" * 12, **change}),
    )
    path.write_text(f"{good}\n{line}\n")
    problems: list[str] = []
    (run,) = recorded_runs(tmp_path, problems.append)
    assert run.recipe.train.seed == three[0]["seed"]
    (problem,) = problems
    assert message in problem
    assert str(path) in problem
    with pytest.raises(ValueError, match="hybrid"):
        recorded_runs(tmp_path)
    before = path.read_bytes()
    if "line 2" in message:  # what cannot be read would be lost
        with pytest.raises(ValueError, match="line 2"):
            add_records(tmp_path, three)
        assert path.read_bytes() == before


def test_a_file_of_something_else_is_named_once(three: list[Record], tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n' * 100)
    add_records(tmp_path, three)
    found = find_runs([tmp_path])
    assert [len(group.runs) for group in found.groups] == [3]
    assert len(found.damaged) == 1


def test_reports_and_lists_read_records(
    three: list[Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_records(tmp_path / "records", three)
    file = tmp_path / "records/hybrid.jsonl"
    for place in (tmp_path, tmp_path / "records", file):
        assert [(group.name, len(group.runs)) for group in read_groups([place])] == [(NAME, 3)]
    assert len(find_runs([tmp_path, file]).groups[0].runs) == 3  # given twice, read once
    for place in (file.parent, file):
        assert main(["runs", str(place)]) in (None, 0)
        listed = capsys.readouterr().out
        assert all(f"hybrid-mnist-first-relu-64-seed{record['seed']}-{record['id']}" in listed for record in three)
    assert main(["report", str(file), "-o", str(tmp_path / "page.html"), "--tables", "csv"]) in (None, 0)
    assert NAME in (tmp_path / "page.html").read_text()
    assert NAME in (tmp_path / "page.csv").read_text()


def test_a_record_of_an_unfinished_run_is_refused(three: list[Record], tmp_path: Path) -> None:
    run = replace(run_of(three[0], tmp_path), summary=None)
    with pytest.raises(ValueError, match="only finished runs have a record"):
        record_of(run, NAME)


def test_runs_are_collected_by_the_names_of_their_recipes(
    three: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "RECORDS", tmp_path / "records")
    for record in three:
        run = run_of(record, tmp_path / "runs")
        write_run(run, run.folder)
    assert (tool.collect([tmp_path / "runs"]), tool.collect([tmp_path / "runs"])) == (3, 0)
    ((kept,),) = tool.kept_sets().values()
    assert [run.summary["seed"] for run in kept] == [42, 43, 44]
    write_run(run_of(three[0], tmp_path), tmp_path / "runs" / "my-own")
    with pytest.raises(ValueError, match="my-own is not named after a recipe"):
        tool.collect([tmp_path / "runs"])


def test_runs_of_today_and_of_before_are_told_apart(
    three: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "RECORDS", tmp_path)
    old = run_of(three[0], tmp_path)
    recipe = load_recipe(NAME)
    for seed in (0, 1):
        today = replace(recipe, train=replace(recipe.train, seed=seed, epochs=1))
        tool.keep(replace(old, recipe=today), NAME)
    other = replace(recipe, train=replace(recipe.train, lr=0.5))
    tool.keep(replace(old, recipe=other), NAME)
    new, before = tool.kept_sets()[NAME]
    assert [run.differs for run in new] == [(), ()]
    assert [run.differs for run in before] == [("train.lr",)]
    assert tool.changed(before[0].recipe, NAME) == {"train.lr": (0.5, recipe.train.lr)}
    names = {group.name: len(group.runs) for group in read_groups([tmp_path])}
    attention = recipe.model.attention
    assert names == {
        f"{NAME} ({attention}, 1 epoch of 100%)": 2,
        f"{NAME} ({attention}, {recipe.train.epochs} epochs of 100%)": 1,
    }
    tool.keep(replace(old, recipe=replace(other, train=replace(other.train, lr=0.25))), NAME)
    assert [name.rpartition(", ")[2] for name in (group.name for group in read_groups([tmp_path]))] == [
        "1 epoch of 100%)", "lr 0.25)", "lr 0.5)",
    ]  # fmt: skip
