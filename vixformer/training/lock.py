"""One process at a time trains in a run folder."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from vixformer.jsonfile import parse_json
from vixformer.writing import CannotWriteError, remove_parts

LOCK = ".lock"
FAR = 1 << 30
"""Where Windows locks a byte: what it locks nobody else can read, and others read who has the lock."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""File systems without locks, such as some on networks."""


class InUseError(ValueError):
    """Another process is training in the folder."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder. The system releases it when its owner ends, however it ends. A second process gets
    an error that names the first."""
    path = folder / LOCK
    owner = {"pid": os.getpid(), "host": platform.node(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    with _taken(path, folder) as file:
        try:
            try:
                file.truncate(0)
                file.write(json.dumps(owner).encode())
            except OSError as error:
                raise _cannot_write(folder, error) from None
            remove_parts(folder)  # of an owner that was killed
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows does not remove what is open
                path.unlink()


def _taken(path: Path, folder: Path) -> BinaryIO:
    while True:
        try:
            descriptor = os.open(
                path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0), 0o666
            )
        except OSError as error:
            raise _cannot_write(folder, error) from None
        file = os.fdopen(descriptor, "rb+", buffering=0)  # closing it writes nothing more
        try:
            _lock(descriptor)
        except OSError as error:
            if error.errno in NO_LOCKS:
                return file
            with file:
                owner = _owner(file)
            raise InUseError(
                f"{folder} is in use: {owner}; wait until it ends, stop it, or choose another folder with --out"
            ) from None
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return file
        file.close()  # its owner ended, and removed it, between our opening and our locking it


def _cannot_write(folder: Path, error: OSError) -> CannotWriteError:
    return CannotWriteError(f"cannot write to {folder}: {error.strerror}; choose another folder with --out")


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:
        import msvcrt

        windows = vars(msvcrt)  # which says nothing of itself on other systems
        os.lseek(descriptor, FAR, os.SEEK_SET)
        windows["locking"](descriptor, windows["LK_NBLCK"], 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _owner(file: BinaryIO) -> str:
    try:
        owner = parse_json(file.read(4096), "the lock")
        return f"process {owner['pid']} on {owner['host']} has been training there since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has not written this yet
        return "another process is training there"
