"""A quiet machine for tests and timings: the lab pauses while one of them runs.

python -m tools.quiet COMMAND ...     runs a command while the lab pauses
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def _lock(name: str) -> BinaryIO:
    """One file for all checkouts of a user. The system releases the lock of a process that ends, however it ends."""
    return (Path(tempfile.gettempdir()) / f"vixformer-{os.getuid()}-{name}.lock").open("ab")


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, no training of the lab runs. Several commands may be inside at a time."""
    with _lock("quiet") as asked, _lock("lab") as lab:
        fcntl.flock(asked, fcntl.LOCK_SH)
        fcntl.flock(lab, fcntl.LOCK_SH)  # waits until the lab has stored its trainings
        fcntl.flock(lab, fcntl.LOCK_UN)
        yield


@contextmanager
def busy() -> Iterator[None]:
    """The lab trains inside."""
    with _lock("lab") as lab:
        fcntl.flock(lab, fcntl.LOCK_EX)
        yield


def wanted() -> bool:
    """Whether somebody wants a quiet machine."""
    with _lock("quiet") as asked:
        try:
            fcntl.flock(asked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


if __name__ == "__main__":
    with quiet():
        sys.exit(subprocess.call(sys.argv[1:]))
