"""Where a study keeps its trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.studies import plan
from vixformer.experiments.search.storage import patiently
from vixformer.experiments.search.study import search


def test_storages_that_cannot_be(tmp_path: Path) -> None:
    for where, message in (
        ("mysql://here/x", "--storage must be postgresql://USER@HOST/NAME, sqlite:///FILE or journal:FILE, not mysql"),
        ("postgresql://me:secret@127.0.0.1:1/x", r"postgresql\+psycopg://me:\*\*\*@127.0.0.1:1/x cannot be reached"),
    ):
        with pytest.raises(ValueError, match=message):
            search(plan("train.lr=1e-3", trials=1), tmp_path, where)


def test_a_journal_file_works_too(tmp_path: Path) -> None:
    (best,) = search(plan("train.lr=1e-3", trials=2), tmp_path, f"journal:{tmp_path / 'journal'}")
    assert best.values[0] > 0


def test_waiting_for_a_database() -> None:
    from sqlalchemy.exc import OperationalError

    calls: list[int] = []

    def call() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OperationalError("select 1", {}, Exception("gone"))
        return "here"

    assert patiently(call) == "here"
    with pytest.raises(ValueError, match="has not answered"):
        patiently(lambda: (_ for _ in ()).throw(OperationalError("select 1", {}, Exception("gone"))), seconds=0.0)
    with pytest.raises(KeyError):
        patiently(lambda: {}["x"])
