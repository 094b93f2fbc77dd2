"""Damaged and odd runs are left out and named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from vixformer.cli import main
from vixformer.report.collect import collect
from vixformer.results.groups import find_runs


def test_one_damaged_run_does_not_hide_the_others(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    first = sorted((tmp_path / "runs").glob("*/summary.json"))[0]
    first.write_text(first.read_text()[:100])
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html"), "--maps", "0"])
    assert "summary.json is not JSON" in (tmp_path / "r.html").read_text()
    assert len(find_runs([tmp_path / "runs"]).damaged) == 1


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("summary.json", "{}", "summary.json is damaged: it has no attention"),
        ("summary.json", "[]", "summary.json is damaged: it should be an object"),
        ("history.jsonl", '{"epoch": 1, "tra', "history.jsonl, line 1, is not JSON"),
        ("history.jsonl", "[1, 2]", "history.jsonl is damaged: 0 should be an object"),
        ("recipe.json", "[" * 100_000, "recipe.json is nested too deeply"),
        ("best/model.safetensors", "x", "pictures of all"),
        ("best/config.json", "{}", "pictures of all"),
    ],
)
def test_whatever_is_damaged_is_left_out_and_named(runs: Path, tmp_path: Path, file: str, text: str, says: str) -> None:
    for folder in (next(runs.glob("all-seed0*")), next(runs.glob("exact-seed0*"))):
        shutil.copytree(folder, tmp_path / "runs" / folder.name)
    (next((tmp_path / "runs").glob("all-*")) / file).write_text(text)
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")])
    assert says in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("file", "key", "value", "says"),
    [
        ("summary.json", ("confusion",), [["a"] * 5] * 5, "confusion.0.0 should be a valid integer, not 'a'"),
        ("summary.json", ("confusion",), [[1, 2], [3]], "confusion should be 10 x 10"),
        (
            "summary.json",
            ("per_class", "one more"),
            dict.fromkeys(("precision", "recall", "f1-score", "support"), 0.5),
            "should be 11 x 11",
        ),
        ("summary.json", ("per_class", "Trouser"), {"recall": "high"}, "per_class.Trouser"),
        ("summary.json", ("attention",), "mymean", 'unknown attention "mymean"'),
        ("recipe.json", ("model", "attention"), "mymean", 'unknown attention "mymean"'),
        ("recipe.json", ("model", "depth"), 10**12, "at most 1000 layers"),
        ("summary.json", ("machine", "threads"), "many", "machine.threads"),
        ("summary.json", ("parameters",), 10**400, "is too large"),
        ("summary.json", ("train_seconds",), 1e300, "train_seconds"),
        ("summary.json", ("train_others",), "some", "train_others"),
        ("summary.json", ("best_epoch",), None, "best_epoch"),
        ("summary.json", ("conversion",), {"layers": [{"layer": 1}], "stages": []}, "conversion"),
    ],
)
def test_one_odd_run_is_left_out_and_named_everywhere(
    runs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    key: tuple[str, ...],
    value: Any,
    says: str,
) -> None:
    for folder in (next(runs.glob("all-seed0*")), next(runs.glob("exact-seed0*"))):
        shutil.copytree(folder, tmp_path / "runs" / folder.name)
    path = next((tmp_path / "runs").glob("all-*")) / file
    changed = inner = json.loads(path.read_text())
    for part in key[:-1]:
        inner = inner[part]
    inner[key[-1]] = value
    path.write_text(json.dumps(changed))
    found = collect([tmp_path / "runs"], {}, live=True)
    assert [group.name for group in found.groups] == ["exact"]
    assert any(says in note and path.parent.name in note for note in found.to_dict()["warnings"])
    main(["runs", str(tmp_path / "runs")])
    told = " ".join(capsys.readouterr().out.split())
    assert "left out: " in told
    assert says in told
