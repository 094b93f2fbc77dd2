"""Images that are decoded for the first time: seen from a terminal, and interrupted."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.datasets import picture
from tests.support.kernels import empty_cache
from tests.support.recipes import tiny
from vixformer.cli import main
from vixformer.commands.watch import Watch
from vixformer.config import Data
from vixformer.data.folder import Folder
from vixformer.experiments.compare import compare
from vixformer.experiments.lanes import Lanes
from vixformer.notes import decoding
from vixformer.terminal import decoding_shown
from vixformer.training.observer import Observer


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", empty_cache(tmp_path / "cache"))
    for part, many in (("train", 40), ("test", 4)):
        for i in range(many):
            picture(tmp_path / "set" / part / ("cat", "dog")[i % 2] / f"{i}.png", (8, 8), color=i)
    return tmp_path / "set"


def test_a_line_in_a_file(images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["data", "check", "folder", "--root", str(images)]
    main(command)
    assert capsys.readouterr().err == "decoding 40 image files\ndecoding 4 image files\n"
    main(command)
    assert capsys.readouterr().err == ""


def test_a_bar_at_a_terminal_beside_that_of_a_training(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.openpty()
    with open(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        with decoding_shown(), Watch("compare", None, "again"):
            Folder(images).read("test")
        terminal.flush()
        os.set_blocking(ours, False)
        shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "decoding image files" in shown
    assert "4/4" in shown


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_does_not_wait_for_the_last_image(jobs: int, images: Path, tmp_path: Path) -> None:
    """With --jobs it was noted, and the decoding went on to its end."""
    seen: list[int] = []

    def pressed(done: int, _: int) -> None:
        seen.append(done)
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what runs in its background
    recipe = replace(tiny(), data=Data(name="folder", root=str(images)))
    with decoding(pressed), pytest.raises(KeyboardInterrupt):
        compare({"one": recipe}, tmp_path / "runs", jobs=jobs)
    assert seen[-1] < 10
    assert not list((tmp_path / "cache").rglob("*.*"))


def test_what_a_process_of_jobs_notes_is_one_line(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    monkeypatch.setenv("VIX_NATIVE", "0")
    recipe = replace(tiny(epochs=1), data=Data(name="folder", root=str(images), resize=28))
    with Lanes(2) as lanes:
        lanes.train("one", recipe, tmp_path / "run", resume=False, observer=Observer())
        lanes.wait()
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("vix: decoded images are kept in memory")


def test_what_a_killed_process_left_makes_room(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "vix" / "images"
    folder.mkdir(parents=True)
    left, growing = folder / ".0.u8.1.part", folder / ".0.u8.2.part"
    for part in (left, growing):
        part.write_bytes(b"pixels")
    os.utime(left, (0, 0))
    Folder(images).read("test")
    assert (left.exists(), growing.exists()) == (False, True)
