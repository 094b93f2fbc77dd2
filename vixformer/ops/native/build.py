"""The library of compiled kernels: compiled on first use and kept in the user's cache, where only the user can write."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import torch

from vixformer.notes import note
from vixformer.writing import waiting

HERE = Path(__file__).parent
SOURCES = [
    HERE / name for name in ("about.c", "along.c", "exact.c", "fourier.c", "given.c", "linear.c", "local.c", "nystrom.c", "rotate.c")
]
# -ffast-math would undo the rounding that exp is made of
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-ffp-contract=fast", "-fopenmp", "-fPIC", "-shared"]
OTHERS = stat.S_IWGRP | stat.S_IWOTH
LOCK = "lock"
BUILD = "tmp"
"""Prefix of the folders in which a compiler works."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or None where there cannot be one."""
    command = None if os.environ.get("VIX_NATIVE") == "0" else _command()
    try:
        return None if command is None else _loaded(command)
    except (OSError, subprocess.SubprocessError):
        return None


def _loaded(command: list[str]) -> ctypes.CDLL | None:
    name = f"attention-{_key(command)}"
    try:
        folder = _cache()
        return _cached(folder, name) or _built_once(folder, name, command)
    except OSError as error:
        note(
            f"the compiled attention kernels cannot be kept in the cache ({error}), so every process compiles them again, which takes some "
            "seconds: set XDG_CACHE_HOME to a folder that belongs to you, or set VIX_NATIVE=0 to run without these kernels",
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as private:  # what is loaded stays loaded
        return _built_once(Path(private), name, command)


def _command() -> list[str] | None:
    """The compiler in CC, which may have arguments, and flags; None where there is no such compiler."""
    posix = os.name != "nt"
    try:
        compiler = shlex.split(os.environ.get("CC") or "cc", posix=posix)
        flags = shlex.split(os.environ.get("VIX_NATIVE_FLAGS", ""), posix=posix)
    except ValueError:
        return None
    return [*compiler, *FLAGS, *flags] if compiler and shutil.which(compiler[0]) else None


def _openmp() -> list[Path]:
    """Torch's threads, not a second set beside them."""
    return sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))


def _key(command: list[str]) -> str:
    """All that the library depends on: sources, compiler and flags, torch's OpenMP and the processor it is tuned for."""
    text = [path.read_text() for path in (*SOURCES, *sorted(HERE.glob("*.h")))]
    openmp = [(path.name, _digest(path)) for path in _openmp()]
    content = (text, command, shutil.which(command[0]), openmp, platform.machine(), _processor())
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    flags = [line for line in info.read_text().splitlines() if line.startswith(("flags", "Features"))] if info.exists() else []
    return flags[0] if flags else platform.processor()


def _cache() -> Path:
    """The folder of libraries. Loading one runs it, so nobody else may be able to put one there."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vix" / "native"
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (folder.parent, folder) if os.name != "nt" else ():
        found = path.stat()
        if found.st_uid not in (0, os.geteuid()):
            raise PermissionError(f"{path} belongs to another user (uid {found.st_uid})")
        if found.st_mode & OTHERS:
            path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
            for library in folder.glob("*.so"):  # anybody may have put them there
                library.unlink()
    return folder


def _cached(folder: Path, name: str) -> ctypes.CDLL | None:
    """A library that is what was compiled: its name ends in the digest of its content."""
    for path in folder.glob(f"{name}-*.so"):
        with contextlib.suppress(FileNotFoundError, AttributeError):  # removed by another process; without our functions
            if path.stem == f"{name}-{_digest(path)}":
                return _declared(ctypes.CDLL(str(path)))
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _built_once(folder: Path, name: str, command: list[str]) -> ctypes.CDLL | None:
    """Processes that start together compile one after the other, and all but the first find what it made."""
    with waiting(folder / LOCK) as alone:
        if alone:
            for left in folder.glob(f"{BUILD}*"):  # of compilations that were killed
                shutil.rmtree(left, ignore_errors=True)
        built = _cached(folder, name)
        if built is None:
            for damaged in folder.glob(f"{name}-*.so"):
                damaged.unlink()
            _compile(folder, name, command)
            built = _cached(folder, name)
        return built


def _compile(folder: Path, name: str, command: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=BUILD) as work:
        target = Path(work) / "attention.so"
        command = [*command, "-o", str(target), *map(str, [*SOURCES, *_openmp()]), "-Wl,--as-needed", "-lm"]
        # the compiler's own temporary files too, so that none are left when it is killed
        done = subprocess.run(command, capture_output=True, timeout=300, env={**os.environ, "TMPDIR": work, "LC_ALL": "C"})
        if b"No space left on device" in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        done.check_returncode()
        with target.open("rb") as file:
            os.fsync(file.fileno())
        target.rename(folder / f"{name}-{_digest(target)}.so")


def _declared(built: ctypes.CDLL) -> ctypes.CDLL:
    pointer, whole, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
    sizes = [pointer, ctypes.c_long] + [whole] * 4  # strides; B, H, N, K and the size of the small side
    built.instructions.argtypes, built.instructions.restype = [], ctypes.c_char_p
    built.along.argtypes = [pointer] * 2 + sizes + [pointer, ctypes.c_long]
    built.along_backward.argtypes = [pointer] * 3 + sizes + [pointer, pointer, ctypes.c_long, pointer]
    built.unfold.argtypes = [pointer] * 2 + [ctypes.c_long] * 3
    built.exact.argtypes = [pointer] * 4 + sizes + [pointer]
    built.exact_backward.argtypes = [pointer] * 8 + sizes + [pointer]
    features = [pointer, pointer, whole, real, real, real, real, whole] + [pointer] * 4
    built.linear_attention.argtypes = [pointer] * 4 + sizes + [pointer, *features]
    built.linear_attention_backward.argtypes = [pointer] * 8 + sizes + [pointer, pointer, *features] + [pointer] * 3
    built.feature_attention.argtypes = [pointer] * 4 + sizes + [whole, pointer, real, real]
    built.feature_attention_backward.argtypes = [pointer] * 8 + sizes + [whole, pointer, real, real]
    built.local.argtypes = [pointer] * 3 + sizes + [pointer, whole, whole]
    built.local_filters.argtypes = [pointer] * 3 + sizes + [whole, whole]
    built.nystrom.argtypes = [pointer] * 4 + sizes + [whole, pointer, whole]
    built.nystrom_backward.argtypes = [pointer] * 8 + sizes + [whole, pointer, whole]
    built.rotate.argtypes = [pointer] * 2 + sizes + [pointer, real]
    return built
