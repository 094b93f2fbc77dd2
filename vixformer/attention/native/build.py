"""The library of the loops: compiled on first use and kept in the user's cache."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

HERE = Path(__file__).parent
SOURCES = [HERE / name for name in ("along.c", "exact.c", "fourier.c", "linear.c", "local.c", "nystrom.c", "rotate.c")]
# -ffast-math would undo the rounding that exp is made of
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-ffp-contract=fast", "-fopenmp", "-fPIC", "-shared"]


@functools.cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or None where there cannot be one."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if os.environ.get("VIX_NATIVE") == "0" or compiler is None:
        return None
    try:
        built = ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.SubprocessError):
        return None
    pointer, whole, real = ctypes.c_void_p, ctypes.c_int, ctypes.c_float
    sizes = [pointer, ctypes.c_long] + [whole] * 4  # strides; B, H, N, K and the size of the small side
    built.along.argtypes = [pointer] * 2 + sizes + [pointer, ctypes.c_long]
    built.along_backward.argtypes = [pointer] * 3 + sizes + [pointer, pointer, ctypes.c_long, pointer]
    built.unfold.argtypes = [pointer] * 2 + [ctypes.c_long] * 3
    built.exact.argtypes = [pointer] * 4 + sizes + [pointer]
    built.exact_backward.argtypes = [pointer] * 8 + sizes + [pointer]
    features = [pointer, pointer, whole, real, real, real, real, whole] + [pointer] * 4
    built.linear_attention.argtypes = [pointer] * 4 + sizes + [pointer, *features]
    built.linear_attention_backward.argtypes = [pointer] * 8 + sizes + [pointer, pointer, *features] + [pointer] * 3
    built.local.argtypes = [pointer] * 3 + sizes + [pointer, whole, whole]
    built.local_filters.argtypes = [pointer] * 3 + sizes + [whole, whole]
    built.nystrom.argtypes = [pointer] * 4 + sizes + [whole, pointer, whole]
    built.nystrom_backward.argtypes = [pointer] * 8 + sizes + [whole, pointer, whole]
    built.rotate.argtypes = [pointer] * 2 + sizes + [pointer, real]
    return built


def _compiled(compiler: str) -> Path:
    """Known by its content: sources, flags and the processor it was tuned for."""
    text = [path.read_text() for path in (*SOURCES, *sorted(HERE.glob("*.h")))]
    content = (text, compiler, FLAGS, platform.machine(), _processor())
    name = f"attention-{hashlib.sha256(repr(content).encode()).hexdigest()[:16]}.so"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "vix" / "native"
    if (cache / name).exists():
        return cache / name
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        target = Path(folder) / name
        parts = [*SOURCES, *(Path(torch.__file__).parent / "lib").glob("libgomp*")]  # torch's threads, not a second set beside them
        command = [compiler, *FLAGS, "-o", str(target), *map(str, parts), "-Wl,--as-needed", "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        target.rename(cache / name)  # atomic: several processes may get here at once
    return cache / name


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    flags = [line for line in info.read_text().splitlines() if line.startswith(("flags", "Features"))] if info.exists() else []
    return flags[0] if flags else platform.processor()
