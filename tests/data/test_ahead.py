"""Threads that work ahead change neither the order nor the place of an error, and they hold few results."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from vixformer.data import ahead as module
from vixformer.data.ahead import ahead


def test_results_come_in_order_and_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 2)
    together = threading.Barrier(2, timeout=10)

    def work(i: int) -> int:
        if i < 2:
            together.wait()  # one thread alone would wait for ever
        time.sleep(0.002 * (i % 3))
        return i * i

    assert list(ahead(work, range(300))) == [i * i for i in range(300)]


def test_an_error_comes_where_its_item_would_have_come() -> None:
    found = ahead(lambda i: 1 / (5 - i), range(1000))
    assert [next(found) for _ in range(5)] == [1 / (5 - i) for i in range(5)]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_a_long_list_is_not_read_to_its_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AHEAD", 4)
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for i in range(1000):
            taken += 1
            yield i

    found = ahead(str, items())
    assert next(found) == "0"
    assert taken <= 6
    found.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not [t for t in threading.enumerate() if t.name.startswith("vix-ahead")]
