"""`vix runs`, and runs by the beginning of their names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vixformer.cli import main
from vixformer.commands.flags import find_run


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for age, name in enumerate(
        ("quick-exact-seed0-0123456789ab", "quick-exact-seed1-0123456789ab", "quick-fourier-seed0-0123456789ab")
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "recipe.json").write_text("{}")
        os.utime(tmp_path / "runs" / name / "recipe.json", (10**9 - age, 10**9 - age))
    return tmp_path


def test_the_beginning_of_a_name_is_enough(inside: Path) -> None:
    exact = Path("runs/quick-exact-seed0-0123456789ab")
    for given in ("quick-exact-seed0", "runs/quick-exact-seed0-01", "latest", "runs/latest"):
        assert find_run(given) == exact, given
    for given in ("owner/model", "runs", ".", "nothing", str(inside / "runs")):
        assert find_run(given) == given
    (inside / "latest").mkdir()
    assert find_run("latest") == "latest"  # a folder of that name


def test_several_and_none(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inside / "none.jsonl").touch()
    for args, sentence in (
        (
            ["predict", "quick-exact", "x.png"],
            "MODEL must name one run, and quick-exact is the beginning of 2: quick-exact-seed0-0123456789ab, ",
        ),
        (["train", "--resume", "empty/latest"], "--resume says empty/latest, and empty has no runs"),
        (["convert", "quick-e", "--attention", "nystrom"], "RUN must name one run"),
        (["runs", "none.jsonl"], "none.jsonl has no runs: give a folder of runs, or a .jsonl file of their records"),
    ):
        with pytest.raises(SystemExit):
            main(args)
        assert sentence in capsys.readouterr().err


def test_state_and_how_to_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = [
        "--data.fraction",
        "0.02",
        "--epochs",
        "1",
        "--model.depth",
        "1",
        "--train.no-measure",
        "--out",
        str(tmp_path),
    ]
    main(["compare", "quick/exact", "quick/fourier", *short])
    progress = capsys.readouterr().err
    assert "run 1 of 2: quick/exact" in progress
    assert "run 2 of 2, about" in progress
    unfinished = next(tmp_path.glob("quick-fourier-*"))
    (unfinished / "summary.json").unlink()
    main(["runs", str(tmp_path)])
    assert f"Resume with: vix train --resume {unfinished}\n" in capsys.readouterr().out
    main(["runs", str(tmp_path), "--json"])
    done, rest = json.loads(capsys.readouterr().out)
    assert (done["state"], rest["state"], rest["top-1 %"]) == ("done", "not finished", None)
    assert 0 <= done["top-1 %"] <= 100
    assert done["date"][:2] == "20"
