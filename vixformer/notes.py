"""Notes for the user while the work continues, a warning in Python and one line from the command `vix`; and progress of
work that the user did not ask for by name, which a command shows."""

from __future__ import annotations

import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any


class Note(UserWarning):
    pass


def note(text: str) -> None:
    warnings.warn(text, Note, stacklevel=3)


@contextlib.contextmanager
def printed_notes() -> Iterator[None]:
    """Print notes to standard error, each once and without its place in our code."""
    with warnings.catch_warnings():
        shown, said = warnings.showwarning, set()

        def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
            if not issubclass(category, Note):
                shown(message, category, filename, lineno, *rest)
            elif str(message) not in said:
                said.add(str(message))
                print(f"vix: {message}", file=sys.stderr)

        warnings.simplefilter("always", Note)
        warnings.showwarning = show
        yield


def want_of_memory(error: BaseException) -> str | None:
    """A sentence, where an allocation failed."""
    failed = re.search("(out of|not enough|can't allocate|cannot allocate) memory", str(error), re.IGNORECASE)
    if not isinstance(error, MemoryError) and not failed:
        return None
    asked = re.search(r"allocate (\d+) bytes", str(error))
    amount = f" for {int(asked[1]) / 2**30:,.1f} GiB more" if asked else ""
    return f"there is not enough memory{amount}: use a smaller model, --train.batch-size or image size"


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
