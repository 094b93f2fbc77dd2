"""`vix compare`, as a person meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import TINY, fails, run
from vixformer.recipes import load_recipe


def test_compare_prints_and_writes_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "has no runs" in fails(capsys, "runs", str(tmp_path))
    flags = [*TINY[:-2], "--train.no-measure", "--epochs", "1", "--folds", "2", "--out", str(tmp_path)]
    out = run(capsys, "compare", "quick/exact", "quick/fourier", *flags)
    assert "mean ± standard deviation over 2 folds, one seed" in out
    page = (tmp_path / "compare.md").read_text()
    assert "| quick/fourier | fourier |" in page
    assert "validation %" in page
    listed = run(capsys, "runs", str(tmp_path))
    assert listed.count("1 of 1") == 4
    assert "done" in listed


def test_a_recipe_in_a_file_is_named_after_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    flags = [*TINY, "--train.no-measure", "--out", str(tmp_path / "runs")]
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.json").write_text(load_recipe("quick/fourier").to_json())
    mine, other = (str(tmp_path / folder / "mine.json") for folder in ("one", "other"))
    assert f"two recipes are called mine: {mine} and {other}; rename one of the files" in fails(
        capsys, "compare", mine, other, *flags
    )
    out = run(capsys, "compare", mine, "quick/exact", "--against", mine, *flags)
    assert "Columns with x are relative to mine." in out
    trained = {path.name.partition("-seed")[0] for path in (tmp_path / "runs").iterdir() if path.is_dir()}
    assert trained == {"mine", "quick-exact"}
    assert "the same content is not run twice" in run(capsys, "train", mine, *flags)
