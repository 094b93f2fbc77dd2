"""The library of compiled kernels: from the wheel, or compiled on first use and kept in the user's cache, where only
the user can write."""

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
from dataclasses import dataclass
from pathlib import Path

import torch

from vixformer.notes import note
from vixformer.ops.native.targets import TARGETS, possible, processor
from vixformer.writing import waiting

HERE = Path(__file__).parent
SOURCES = sorted(HERE.glob("*.c"))
# -ffast-math would undo the rounding that exp is made of
FLAGS = ["-O3", "-fno-math-errno", "-ffp-contract=fast", "-fopenmp", "-fPIC"]
NATIVE = "native"
CHOICES = ("0", NATIVE, *TARGETS)
"""What VIX_NATIVE may say: no kernels, kernels compiled here for this very processor, or kernels for an instruction
set."""
OTHERS = stat.S_IWGRP | stat.S_IWOTH
LOCK = "lock"
LOG = ".log"
BUILD = "tmp"
"""Prefix of the folders in which a compiler works."""


@dataclass(frozen=True)
class Status:
    """Whether compiled kernels are on; where they are not, the reason and what to do."""

    on: bool
    instructions: str | None = None
    """The instruction set that they were compiled for."""
    library: str | None = None
    """Where the library lies; in a temporary folder it is removed once it is loaded."""
    origin: str | None = None
    """Whether it came from the wheel or was compiled here."""
    reason: str | None = None
    advice: str | None = None


class NotBuiltError(Exception):
    """The reason, and what to do."""


def library() -> ctypes.CDLL | None:
    """The compiled library, or None where there cannot be one."""
    return found()[0]


def status() -> Status:
    return found()[1]


@functools.cache
def found() -> tuple[ctypes.CDLL | None, Status]:
    """Once a process, with one note where kernels are off though they could be on."""
    wish = os.environ.get("VIX_NATIVE", "")
    if wish == "0":
        return None, Status(False, reason="the environment variable VIX_NATIVE is 0", advice="unset it")
    try:
        _check(wish)
        shipped = _shipped(wish)
        built = shipped or _loaded(_command(wish))
    except NotBuiltError as error:
        reason, advice = error.args
        note(
            f"compiled attention kernels are off, so attention is slower: {reason}. To change that, {advice}; or set"
            " VIX_NATIVE=0"
        )
        return None, Status(False, reason=reason, advice=advice)
    return built, Status(
        True, built.instructions().decode(), built._name, "from the wheel" if shipped else "compiled here"
    )


def _check(wish: str) -> None:
    if wish not in ("", "1", *CHOICES):
        raise NotBuiltError(f"VIX_NATIVE={wish!r} is unknown", f"set it to one of {', '.join(CHOICES)}, or unset it")
    if wish in TARGETS and wish not in possible():
        others = ", ".join(possible()) or NATIVE
        raise NotBuiltError(
            f"VIX_NATIVE={wish} wants instructions that this processor does not have",
            f"set it to {others}, or unset it",
        )


def _shipped(wish: str) -> ctypes.CDLL | None:
    """The library in the wheel for the best instructions of this processor, or for those wished for. It is as fast as
    one compiled here, and needs no compiler. It names no OpenMP runtime, so that it finds torch's."""
    if wish == NATIVE or os.environ.get("VIX_NATIVE_FLAGS"):
        return None
    for name in possible():
        path = HERE / f"{name}.so"
        if wish in ("", "1", name) and path.exists():
            # a torch without libgomp: what is compiled here finds another
            with contextlib.suppress(OSError, AttributeError):
                for openmp in _openmp():
                    ctypes.CDLL(str(openmp), mode=ctypes.RTLD_GLOBAL)
                return _declared(ctypes.CDLL(str(path)))
    return None


def _loaded(command: list[str]) -> ctypes.CDLL:
    name = f"attention-{_key(command)}"
    try:
        folder = _cache()
        return _cached(folder, name) or _built_once(folder, name, command)
    except OSError as error:
        note(
            f"the compiled attention kernels cannot be kept in the cache ({error}), so every process compiles them"
            " again, which takes seconds. Set XDG_CACHE_HOME to a folder that belongs to you, or set VIX_NATIVE=0 to"
            " run without these kernels",
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as private:  # what is loaded stays loaded
        try:
            return _built_once(Path(private), name, command)
        except OSError as error:
            raise NotBuiltError(
                f"no folder to compile in ({error})", "make room in a folder for temporary files, or set TMPDIR"
            ) from None


def _command(wish: str) -> list[str]:
    """The compiler in CC, which may have arguments, and flags."""
    posix = os.name != "nt"
    words: dict[str, list[str]] = {}
    for variable, usual in (("CC", "cc"), ("VIX_NATIVE_FLAGS", "")):
        try:
            words[variable] = shlex.split(os.environ.get(variable) or usual, posix=posix)
        except ValueError as error:
            given = os.environ[variable]
            raise NotBuiltError(
                f"{variable}={given!r} cannot be read ({error})", f"set {variable} as in a shell"
            ) from None
    compiler = words["CC"]
    if not compiler or shutil.which(compiler[0]) is None:
        missing = (
            f"there is no C compiler named {compiler[0]}"
            if compiler
            else f"CC={os.environ['CC']!r} names no C compiler"
        )
        raise NotBuiltError(missing, "install gcc or clang, or set CC to the compiler that you have")
    flags = TARGETS[wish].flags if wish in TARGETS else ("-march=native",)
    return [*compiler, *FLAGS, "-shared", *flags, *words["VIX_NATIVE_FLAGS"]]


def _openmp() -> list[Path]:
    """Torch's threads, not a second set beside them. Where torch keeps them depends on its version and the
    processor."""
    package = Path(torch.__file__).parent
    return sorted(
        path for folder in (package / "lib", package.with_name("torch.libs")) for path in folder.glob("libgomp*")
    )


def _key(command: list[str]) -> str:
    """All that the library depends on: sources, compiler and flags, torch's OpenMP and the processor it is tuned
    for."""
    text = [path.read_text() for path in (*SOURCES, *sorted(HERE.glob("*.h")))]
    openmp = [(path.name, _digest(path)) for path in _openmp()]
    compilers = [_version(path) for word in command if (path := shutil.which(word))]  # ccache gcc: both
    content = (text, command, compilers, openmp, platform.machine(), processor())
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _version(program: str) -> tuple[str, int, int]:
    """Of an executable: another one of its name is another compiler."""
    found = os.stat(program)
    return program, found.st_size, found.st_mtime_ns


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
        # removed by another process, or it does not load; without our functions
        with contextlib.suppress(OSError, AttributeError):
            if path.stem == f"{name}-{_digest(path)}":
                return _declared(ctypes.CDLL(str(path)))
    return None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _built_once(folder: Path, name: str, command: list[str]) -> ctypes.CDLL:
    """Processes that start together compile one after the other, and all but the first find what it made, or that it
    failed."""
    log = folder / f"{name}{LOG}"
    with waiting(folder / LOCK) as alone:
        if alone:
            for left in folder.glob(f"{BUILD}*"):  # of compilations that were killed
                shutil.rmtree(left, ignore_errors=True)
        built = _cached(folder, name)
        if built is None and not log.exists():
            for damaged in folder.glob(f"{name}-*.so"):
                damaged.unlink()
            _compile(folder, name, command, log)
            built = _cached(folder, name)
            if built is None and not log.exists():
                log.write_text(f"{shlex.join(command)}\nthe library that it made does not load\n")
        if built is None:
            raise NotBuiltError(*_failure(log, command))
        return built


def _failure(log: Path, command: list[str]) -> tuple[str, str]:
    lines = log.read_text(errors="replace").splitlines()[1:]
    said = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "it said nothing").strip()
    return (
        f"{command[0]} could not compile them ({said})",
        f"see {log}, and remove it to try again, or set CC to another compiler",
    )


def _compile(folder: Path, name: str, command: list[str], log: Path) -> None:
    """A compilation that fails leaves a log: with the same compiler, flags and sources it is not tried again."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=BUILD) as work:
        target = Path(work) / "attention.so"
        command = [*command, "-o", str(target), *map(str, [*SOURCES, *_openmp()]), "-Wl,--as-needed", "-lm"]
        try:
            # the compiler's own temporary files too, so that none are left when it is killed
            done = subprocess.run(
                command, capture_output=True, timeout=300, env={**os.environ, "TMPDIR": work, "LC_ALL": "C"}
            )
        except subprocess.TimeoutExpired:
            log.write_text(f"{shlex.join(command)}\nit took more than five minutes\n")
            return
        if b"No space left on device" in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        if done.returncode or not target.exists():
            said = done.stderr.decode(errors="replace") or f"exit status {done.returncode}\n"
            log.write_text(f"{shlex.join(command)}\n{said}")
            return
        with target.open("rb") as file:
            os.fsync(file.fileno())
        target.rename(folder / f"{name}-{_digest(target)}.so")


def _declared(built: ctypes.CDLL) -> ctypes.CDLL:
    pointer, whole, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
    # strides; B, H, N, K, whether in bfloat16, and the size of the small side
    sizes = [pointer, ctypes.c_long] + [whole] * 5
    built.instructions.argtypes, built.instructions.restype = [], ctypes.c_char_p
    product = [pointer] * 3 + [ctypes.c_long] + [whole] * 3
    built.affine.argtypes = [pointer, *product]
    built.affine_input.argtypes = built.affine_weight.argtypes = product
    built.gelu.argtypes = [pointer] * 3 + [ctypes.c_long, whole]
    built.layer_norm.argtypes = [pointer] * 5 + [ctypes.c_long, whole, whole, real]
    built.layer_norm_backward.argtypes = [pointer] * 6 + [ctypes.c_long, whole, whole, whole]
    built.along.argtypes = [pointer] * 2 + sizes + [pointer, ctypes.c_long]
    built.along_backward.argtypes = [pointer] * 3 + sizes + [pointer, pointer, ctypes.c_long, pointer]
    built.unfold.argtypes = [pointer] * 2 + [ctypes.c_long] * 3
    built.exact.argtypes = [pointer] * 4 + sizes + [pointer]
    built.exact_backward.argtypes = [pointer] * 8 + sizes + [pointer]
    features = [pointer, pointer, whole, real, real, real, real, whole] + [pointer] * 5
    built.linear_attention.argtypes = [pointer] * 4 + sizes + [pointer, *features]
    built.linear_attention_backward.argtypes = [pointer] * 8 + sizes + [pointer, pointer, *features] + [pointer] * 3
    built.feature_attention.argtypes = [pointer] * 4 + sizes + [whole, pointer, real, real]
    built.feature_attention_backward.argtypes = [pointer] * 8 + sizes + [whole, pointer, real, real]
    built.local.argtypes = [pointer] * 3 + sizes + [pointer, whole, whole]
    built.local_filters.argtypes = [pointer] * 2 + sizes + [whole, whole, pointer]
    built.nystrom.argtypes = [pointer] * 4 + sizes + [whole, pointer, whole]
    built.nystrom_backward.argtypes = [pointer] * 7 + sizes + [whole, pointer, whole, pointer]
    built.rotate.argtypes = [pointer] * 2 + sizes + [pointer, real]
    return built
