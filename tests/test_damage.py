"""Files of every kind that were damaged: one sentence, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.faults import KINDS, faults
from tests.support.kinds.kind import THOROUGH


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_a_sentence(name: str, tmp_path: Path) -> None:
    assert faults(name, 20, tmp_path / "files") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_thousand_damaged_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(THOROUGH, "1")
    assert faults(name, 1000, tmp_path / "files") == []
