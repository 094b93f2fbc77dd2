"""`vix doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vixformer.cli import main
from vixformer.ops import native


def test_what_is_on(capsys: pytest.CaptureFixture[str]) -> None:
    status = native.status()
    if not status.on:
        pytest.skip("no kernels here")
    main(["doctor"])
    out = capsys.readouterr().out
    assert f"{status.instructions} in the compiled kernels" in out
    assert str(status.library) in out.replace("\n", "")


def test_why_they_are_off_and_what_to_do(tmp_path: Path) -> None:
    environment = {**os.environ, "CC": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "vixformer", "doctor"], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "off: there is no C compiler named no-such-compiler" in done.stdout
    assert "install gcc or clang, or set CC to the compiler that you have" in done.stdout


def test_it_takes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "teeth"])
    assert "doctor takes no words, but got teeth as well" in capsys.readouterr().err
