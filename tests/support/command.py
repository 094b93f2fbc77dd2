"""The command in this process: what it prints, and how it fails."""

from __future__ import annotations

import pytest

from vixformer.cli import main


def run(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    main(args)
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vix: ")
    assert err.count("\n") == 1
    return err


TINY = [
    "--data.fraction",
    "0.02",
    "--model.embed-dim",
    "16",
    "--model.depth",
    "1",
    "--model.num-heads",
    "2",
    "--train.epochs",
    "1",
]
