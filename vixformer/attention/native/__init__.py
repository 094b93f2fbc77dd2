"""Loops in C where torch has no fused kernel, compiled on first use and kept in the user's cache.

Optional in every way: without a C compiler, with `VIX_NATIVE=0`, while autograd, a compiler, a tracer or a counter is watching, on other
devices and dtypes, torch does the work. (A linear core in training is not watched: its backward computes features again, with torch.)
Results agree with the reference as closely as torch's own do.
"""

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
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit._trace import is_tracing
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from vixformer.attention import ops

HERE = Path(__file__).parent
SOURCES = [HERE / name for name in ("few_keys.c", "linear.c", "nystrom.c")]
# -ffast-math would undo the rounding that exp is made of
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-ffp-contract=fast", "-fopenmp", "-fPIC", "-shared"]
LANES = 16
"""Head width and landmarks must be multiples of this."""


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
    shape = [pointer] * 5 + [ctypes.c_long] + [whole] * 4  # q, k, v, out, strides; B, H, N, K and the size of the small side
    built.few_keys.argtypes = shape
    built.linear_attention.argtypes = [*shape, pointer, pointer, whole, real, real, real]
    built.nystrom.argtypes = [*shape, whole, pointer, whole]
    return built


def _compiled(compiler: str) -> Path:
    """Known by its content: sources, flags and the processor it was tuned for."""
    text = [path.read_text() for path in (*SOURCES, HERE / "small.h")]
    content = (text, compiler, FLAGS, platform.machine(), _processor())
    name = f"attention-{hashlib.sha256(repr(content).encode()).hexdigest()[:16]}.so"
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "vix" / "native"
    if (cache / name).exists():
        return cache / name
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        target = Path(folder) / name
        subprocess.run([compiler, *FLAGS, "-o", str(target), *map(str, SOURCES), "-lm"], check=True, capture_output=True, timeout=60)
        target.rename(cache / name)  # atomic: several processes may get here at once
    return cache / name


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    flags = [line for line in info.read_text().splitlines() if line.startswith(("flags", "Features"))] if info.exists() else []
    return flags[0] if flags else platform.processor()


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, directions: Tensor, exponential: bool, norm_weight: float, eps: float, total_eps: float
) -> Tensor | None:
    """phi(x) = max(u, 0) + eps or exp(u - norm_weight |x|^2 - c) + eps with u = x `directions` (K, M); None where torch has to do it."""
    if not _can(q, k, v, directions):
        return None
    fill = -directions.shape[1] % LANES
    keep = F.pad(directions.new_ones(directions.shape[1]), (0, fill))
    directions = F.pad(directions, (0, fill)).contiguous()
    tail = (directions.data_ptr(), keep.data_ptr(), exponential, norm_weight, eps, total_eps)
    return _call("linear_attention", q, k, v, keep.numel(), *tail)


def few_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
    """Exact attention of q (B, H, N, K) to few k and v (B, H, R, K); None where torch has to do it."""
    return None if k.shape[-2] % LANES or not _can(q, k, v) else _call("few_keys", q, k, v, k.shape[-2])


def nystrom(q: Tensor, k: Tensor, v: Tensor, landmarks: int, iterations: int, filters: Tensor | None) -> Tensor | None:
    """Attention with the convolution of v added, `filters` (H, 2 side + 1); None where torch has to do it."""
    if landmarks % LANES or not _can(q, k, v, *(() if filters is None else (filters,))):
        return None
    if filters is None:
        return _call("nystrom", q, k, v, landmarks, iterations, None, 0)
    padded = F.pad(filters.detach(), (3, 3)).contiguous()
    return _call("nystrom", q, k, v, landmarks, iterations, padded.data_ptr(), filters.shape[1] // 2)


def _can(*tensors: Tensor) -> bool:
    """Plain float32 memory, and nobody who would want to see every operation: no autograd, tracer, compiler, transform or mode."""
    if any(type(t) not in (Tensor, nn.Parameter) or t.device.type != "cpu" or t.dtype != torch.float32 for t in tensors):
        return False
    traced = torch.compiler.is_compiling() or is_tracing() or is_in_torch_dispatch_mode() or ops.transformed()
    watched = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not traced and not watched and tensors[0].shape[-1] % LANES == 0 and library() is not None


def _call(name: str, q: Tensor, k: Tensor, v: Tensor, *options: object) -> Tensor | None:
    """q, k, v (B, H, N, K) -> (B, H, N, K), in the order in which heads are put together again."""
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    b, h, n, d = q.shape
    out = q.new_empty(b, n, h, d).transpose(1, 2)
    strides = (ctypes.c_long * 12)(*(step for t in (q, k, v, out) for step in t.stride()[:3]))
    failed = getattr(library(), name)(*(t.data_ptr() for t in (q, k, v, out)), strides, b, h, n, d, *options)
    return None if failed else out
