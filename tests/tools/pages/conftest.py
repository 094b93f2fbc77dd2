"""The pages, and a world without runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.pages import answers, figures, tables
from tools.pages.__main__ import pages


@pytest.fixture(scope="session")
def made() -> dict[str, str]:
    return pages()


@pytest.fixture
def no_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing was run, timed or measured; what a test adds to `tables.EVERY` and `tables.TIMES` is all there is."""
    for kept in (tables.EVERY, tables.RUNS, tables.TRIALS, tables.TIMES, tables.MEMORY):
        for name in list(kept):
            monkeypatch.delitem(kept, name)
    for cached in (answers.answers, figures.drawings):
        cached.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    for cached in (answers.answers, figures.drawings):
        cached.cache_clear()
