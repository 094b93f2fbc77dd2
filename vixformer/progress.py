"""Progress of long work that the user did not ask for by name. A command shows it; a library call is silent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Progress = Callable[[int, int], None]
"""Called with how many are done and how many there are."""
_shown: list[Progress] = []


@contextlib.contextmanager
def decoding(show: Progress) -> Iterator[None]:
    """Inside, `show` is called for every image file that is decoded."""
    _shown.append(show)
    try:
        yield
    finally:
        _shown.remove(show)


def decoded(done: int, total: int) -> None:
    for show in _shown:
        show(done, total)
