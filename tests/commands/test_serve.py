"""Flags of `vix serve`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from vixformer.cli import main


def test_bad_flags_are_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for args, says in (
            ([str(tmp_path / "nowhere")], "is no folder of runs"),
            ([str(tmp_path), "--port", "70000"], "--port must be a whole number from 0 to 65535, not 70000"),
            (
                [str(tmp_path), "--port", str(port := taken.getsockname()[1])],
                f"port {port} of 127.0.0.1 is taken by another program: give another --port, or --port 0 for any",
            ),
            (
                [str(tmp_path), "--host", "203.0.113.1", "--token", "a" * 16],
                "cannot listen on port 8000 of 203.0.113.1: ",
            ),
        ):
            with pytest.raises(SystemExit):
                main(["serve", *args])
            assert says in capsys.readouterr().err
