"""The scripts for shells, in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from vixformer.cli import main

CASES = [
    ("vix tra", "train"),
    ("vix train quick/exac", "quick/exact"),
    ("vix train quick/exact --train.sched", "--train.schedule"),
    ("vix train quick/exact --train.schedule one", "onecycle"),
    ("vix data chec", "check"),
    ("vix data get fashion-min", "fashion-mini"),
    ("vix bench cross", "crossover"),
    ("vix bench crossover --dtype bf", "bfloat16"),
    ("vix show levit-128", "levit-128s"),
]


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    main(["completion", request.param])
    path = tmp_path / "vix"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash(script: Path) -> None:
    ask = 'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vix; echo "${COMPREPLY[@]}"; }'
    lines = [f"source {script}", ask, *(f"ask {line}" for line, _ in CASES), "ask vix train ''", "ask vix predict ''"]
    done = subprocess.run(["bash", "--norc", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    *found, recipes, files = done.stdout.splitlines()
    for (line, expected), words in zip(CASES, found, strict=True):
        assert expected in words.split(), line
    assert len(recipes.split()) > 100
    assert files == ""  # so that bash completes the names of files


@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish(script: Path) -> None:
    asked = "\n".join(f"complete -C '{line}'; echo" for line, _ in CASES)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}\n{asked}"], capture_output=True, text=True, check=True
    )
    for (line, expected), found in zip(CASES, done.stdout.split("\n\n"), strict=False):
        assert expected in {word.split("\t")[0] for word in found.splitlines()}, line


@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh(script: Path) -> None:
    """Its own completion needs a terminal: here the script loads, and gives bash's answers."""
    line = (
        f"autoload -U compinit; compinit -u -D; source {script}; COMP_WORDS=(vix train --train.schedule one); print"
        " $_comps[vix]"
    )
    done = subprocess.run(["zsh", "-f", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("_bash_complete"), done.stderr
