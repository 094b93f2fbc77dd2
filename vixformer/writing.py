"""Files that are complete or absent, whatever happens while they are written. All code of the package writes files through here."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PART = ".part"
"""Suffix of incomplete files."""


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """An empty file beside `path` to write to. It takes the place of `path` when the block ends, and is gone when the block fails.

    Its name is new and nobody's link: two processes never write to the same one.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PART)
    except OSError as error:
        raise _cannot(path, error) from None
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_mask())  # for whom other new files are: mkstemp makes its files the owner's alone
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _cannot(path, error) from None
        raise


def _cannot(path: Path, error: OSError) -> ValueError:
    kept = "; the previous one is kept" if path.exists() else ""
    return ValueError(f"cannot write {path}: {error.strerror or error}{kept}")


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_bytes(path: Path, data: bytes) -> None:
    with whole(path) as part:
        part.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def remove_parts(folder: Path) -> None:
    """Remove partial files of processes that were killed while they wrote."""
    for part in folder.rglob(f".*{PART}"):
        part.unlink(missing_ok=True)
