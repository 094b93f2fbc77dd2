"""What a person should know although the work goes on: a warning in Python, one line of the command `vix`."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any


class Note(UserWarning):
    pass


def note(text: str) -> None:
    warnings.warn(text, Note, stacklevel=3)


@contextlib.contextmanager
def printed_notes() -> Iterator[None]:
    """On standard error, each once and without the place in our code."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, Note):
                print(f"vix: {message}", file=sys.stderr)
            else:
                shown(message, category, *rest, **more)

        warnings.simplefilter("default", Note)
        warnings.showwarning = show
        yield
