"""Work on what comes next while the caller is busy with what came before: decoding leaves Python's lock to others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from vixformer.room import cores

From = TypeVar("From")
To = TypeVar("To")
AHEAD = 128
"""Results that wait at most, so that a long list does not fill the memory."""


def ahead(call: Callable[[From], To], items: Iterable[From]) -> Iterator[To]:
    """call(item) for each, in order, by one thread a core. An error comes where its item would have come."""
    pool = ThreadPoolExecutor(cores(), "vix-ahead")
    waiting: deque[Future[To]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(call, item))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
