"""Two processes on one run folder."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.recipes import tiny
from vixformer.training.lock import LOCK, locked
from vixformer.training.loop import train
from vixformer.training.observer import Observer

HOLD = """
import sys
from pathlib import Path
from vixformer.training.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    recipe = tiny(epochs=1)

    class Second(Observer):
        def epoch_begins(self, epoch: int, batches: int) -> None:
            with pytest.raises(ValueError, match="is in use") as refused:
                train(recipe, tmp_path / "run")
            said.append(str(refused.value))

    said: list[str] = []
    train(recipe, tmp_path / "run", observer=Second())
    assert said[0].startswith(
        f"{tmp_path / 'run'} is in use: process {os.getpid()} on {platform.node()} has been training there since 20"
    )
    assert said[0].endswith("; wait until it ends, stop it, or choose another folder with --out")
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_killed_owner_keeps_nobody_out_and_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match=f"process {owner.pid} on "), locked(tmp_path):
            pass
        owner.kill()
    assert (tmp_path / LOCK).exists()
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / ".model.safetensors.abc.part").touch()
    with locked(tmp_path):
        assert not list(tmp_path.rglob("*.part"))
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / LOCK).symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match="cannot write to"), locked(tmp_path):
        pass
    assert (tmp_path / "victim").read_text() == "mine"
