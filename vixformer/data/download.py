"""Bringing a data set here from its original address: resumed where it was cut, checked, and there whole or not at
all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from vixformer.data.dataset import DataSet, Download

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes that are here and the bytes in all, where the server tells."""
BLOCK = 1 << 18
TRIES = 5


def get(dataset: DataSet, progress: Progress | None = None) -> list[Path]:
    """Every file of the distribution; those that are here and right are not fetched again, and nothing is where the set
    can be read."""
    if not dataset.downloads:
        raise ValueError(f"{dataset.name} has no files to get: it is {dataset.about}")
    if dataset.here():
        return []
    return [fetch(item, dataset.root, progress) for item in dataset.downloads]


def fetch(item: Download, root: Path, progress: Progress | None = None, tries: int = TRIES) -> Path:
    folder = root / item.folder
    folder.mkdir(parents=True, exist_ok=True)
    target, part = folder / item.name, folder / f"{item.name}.part"
    if part.is_symlink():  # somebody else's
        part.unlink()
    if not (target.exists() and digest(target, item.digest) == item.digest):
        try:
            _receive(item, part, progress, tries)
        except ValueError:
            _remove_empty(folder, root)
            raise
        found = digest(part, item.digest)
        if found != item.digest:
            part.unlink()
            raise ValueError(
                f"{item.url} is not the file it should be: its digest is {found} and not {item.digest}; nothing was"
                " kept"
            )
        os.replace(part, target)
    if item.unpack:
        _unpack(target, folder)
    return target


def digest(path: Path, like: str) -> str:
    """In the form of `like`: the algorithm, a colon, the digits."""
    algorithm = like.partition(":")[0]
    state = hashlib.new(algorithm)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            state.update(block)
    return f"{algorithm}:{state.hexdigest()}"


def _no_link(path: str, flags: int) -> int:
    """The name of a part is known beforehand: a link that somebody put there is not followed."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _receive(item: Download, part: Path, progress: Progress | None, tries: int) -> None:
    """Into `part`, going on where an earlier try stopped."""
    for attempt in range(tries):
        here = part.stat().st_size if part.exists() else 0
        try:
            request = urllib.request.Request(item.url, headers={"Range": f"bytes={here}-"} if here else {})
            with urllib.request.urlopen(request, timeout=30) as answer:
                resumed = answer.status == 206
                length = answer.headers.get("Content-Length")
                total = None if length is None else int(length) + (here if resumed else 0)
                done = here if resumed else 0
                with open(part, "ab" if resumed else "wb", opener=_no_link) as file:
                    while block := answer.read(BLOCK):
                        file.write(block)
                        done += len(block)
                        if progress is not None:
                            progress(item.name, done, total)
            if total is None or done == total:
                return
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing after what is here: let the digest decide
                return
            raise ValueError(f"cannot get {item.url}: the server answers {error.code} {error.reason}") from None
        except (OSError, HTTPException) as error:
            if attempt == tries - 1:
                kept = "; what came is kept, and the same command resumes there" if part.exists() else ""
                raise ValueError(f"cannot get {item.url}: {getattr(error, 'reason', error)}{kept}") from None
    raise ValueError(f"cannot get {item.url}: the connection was cut {tries} times; the same command resumes there")


def _remove_empty(folder: Path, root: Path) -> None:
    """Folders made for a file that did not come."""
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _unpack(archive: Path, folder: Path) -> None:
    """Into a folder of its own first, so that what appears is whole."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        temporary = Path(name)
        try:
            _extract(archive, temporary)
        except RuntimeError as error:  # zipfile's, of a password that it needs and of a method that it does not know
            raise ValueError(f"cannot unpack {archive}: {error}; get the original file again") from None
        except ValueError:
            raise
        except Exception as error:  # cut short or damaged, it may fail in any way
            system = error.strerror if isinstance(error, OSError) else None
            raise ValueError(
                f"cannot unpack {archive}: {system or f'it is damaged or cut short ({error}); get it again'}"
            ) from None
        for entry in temporary.iterdir():
            if not (folder / entry.name).exists():
                entry.rename(folder / entry.name)


def _extract(archive: Path, into: Path) -> None:
    """Member by member, as far as there is room: an archive of some kilobytes may claim petabytes."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as content:
            for member in content.infolist():
                _check_room(archive, into, member.filename, member.file_size)
                content.extract(member, into)
    else:
        with tarfile.open(archive) as content:
            for entry in content:
                _check_room(archive, into, entry.name, entry.size)
                content.extract(entry, into, filter="data")


def _check_room(archive: Path, into: Path, name: str, size: int) -> None:
    free = shutil.disk_usage(into).free
    if size > free:
        sizes = f"{name} needs {size / 2**20:,.0f} MiB and {into.parent} has {free / 2**20:,.0f} MiB left"
        raise ValueError(f"cannot unpack {archive}: {sizes}")
