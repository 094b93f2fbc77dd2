"""Files that are complete or absent, whatever happens while they are written. All code of the package writes files
through here."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

PART = ".part"
"""Suffix of incomplete files."""


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """An empty file beside `path` to write to. It takes the place of `path` when the block ends, and is gone when the
    block fails.

    Its name is new and nobody's link: two processes never write to the same one.
    """
    # a pipe or /dev/null: nothing takes its place
    if path.exists() and not (path.is_file() or path.is_dir() or path.is_symlink()):
        yield path
        return
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    try:
        part.open("x").close()
    except OSError as error:
        raise cannot_write(path, error) from None
    mode = part.stat().st_mode
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.chmod(mode)  # for whom other new files are: safetensors makes its files the owner's alone
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from None
        raise


class CannotWriteError(ValueError):
    """The disk is full, for example."""


def cannot_write(path: Path, error: Exception) -> CannotWriteError:
    kept = "; the previous one is kept" if path.exists() else ""
    return CannotWriteError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}{kept}")


def write_bytes(path: Path, data: bytes) -> None:
    with whole(path) as part:
        part.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def remove_parts(folder: Path, older: float = 0.0) -> None:
    """Remove partial files of processes that were killed while they wrote; `older` spares those touched within that
    many seconds."""
    for part in folder.rglob(f".*{PART}"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - part.stat().st_mtime >= older:
                part.unlink()


@contextlib.contextmanager
def waiting(path: Path) -> Iterator[bool]:
    """Hold the lock of this file, after all who hold it now; whether it is held, which not every file system allows."""
    with path.open("a") as lock:
        held = False
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
                held = True
        yield held
