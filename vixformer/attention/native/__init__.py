"""Loops in C where torch has no fused kernel, compiled on first use and kept in the user's cache.

Optional in every way: without a C compiler, with `VIX_NATIVE=0`, while a compiler, a tracer or a counter is watching, on other devices and
dtypes, torch does the work. Results and gradients agree with the reference as closely as torch's own do.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.jit._trace import is_tracing
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from vixformer.attention import ops

HERE = Path(__file__).parent
SOURCES = [HERE / name for name in ("exact.c", "linear.c", "local.c", "nystrom.c")]
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
    sizes = [pointer, ctypes.c_long] + [whole] * 4  # strides; B, H, N, K and the size of the small side
    built.exact.argtypes = [pointer] * 4 + sizes + [pointer]
    built.exact_backward.argtypes = [pointer] * 8 + sizes + [pointer]
    built.linear_attention.argtypes = [pointer] * 4 + sizes + [pointer, pointer, whole, real, real, real, real]
    built.linear_attention_backward.argtypes = [pointer] * 7 + sizes + [pointer, pointer, pointer, whole, real, real, real, real]
    built.local.argtypes = [pointer] * 3 + sizes + [pointer, whole, whole]
    built.local_filters.argtypes = [pointer] * 3 + sizes + [whole, whole]
    built.nystrom.argtypes = [pointer] * 4 + sizes + [whole, pointer, whole]
    built.nystrom_backward.argtypes = [pointer] * 8 + sizes + [whole, pointer, whole]
    return built


def _loaded() -> ctypes.CDLL:
    built = library()
    assert built is not None
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


@dataclass(frozen=True)
class FeatureMap:
    """phi(x) = max(u, 0) + eps or exp(u - norm_weight |x|^2 - c) + eps with u = x `directions` (K, M), or x `scale` where there are none;
    the normaliser gets total_eps."""

    directions: Tensor | None
    scale: float
    exponential: bool
    norm_weight: float
    eps: float
    total_eps: float

    def tensors(self) -> tuple[Tensor, ...]:
        return () if self.directions is None else (self.directions,)

    def numbers(self) -> tuple[bool, float, float, float, float]:
        return self.exponential, self.scale, self.norm_weight, self.eps, self.total_eps

    def padded(self, x: Tensor) -> tuple[Tensor | None, Tensor]:
        """Directions up to a multiple of LANES, and which of them count."""
        if self.directions is None:
            return None, x.new_ones(x.shape[-1])
        fill = -self.directions.shape[1] % LANES
        return F.pad(self.directions, (0, fill)).contiguous(), F.pad(self.directions.new_ones(self.directions.shape[1]), (0, fill))


def linear_attention(q: Tensor, k: Tensor, v: Tensor, phi: FeatureMap) -> Tensor | None:
    """phi(q) (phi(k)' v) / (phi(q) . sum phi(k)); None where torch has to do it."""
    if not _can(q, k, v, *phi.tensors()) or not _alike(q, k, v):
        return None
    directions, keep = phi.padded(q)
    pointers = None if directions is None else directions.data_ptr(), keep.data_ptr()
    return _call("linear_attention", (q, k, v), (_like(q),), q.shape, keep.numel(), *pointers, *phi.numbers())


def linear_attention_backward(q: Tensor, k: Tensor, v: Tensor, grad: Tensor, phi: FeatureMap) -> tuple[Tensor, Tensor, Tensor] | None:
    """The gradients of q, k and v; None where torch has to find them."""
    with torch.no_grad():
        if not _can(q, k, v, grad, *phi.tensors()) or not _alike(q, k, v, grad):
            return None
        directions, keep = phi.padded(q)
        turned = None if directions is None else directions.t().contiguous()
        grads = _like(q), _like(k), _like(v)
        pointers = *(None if t is None else t.data_ptr() for t in (directions, turned)), keep.data_ptr()
        failed = _call("linear_attention_backward", (q, k, v, grad), grads, q.shape, keep.numel(), *pointers, *phi.numbers()) is None
    return None if failed else grads


def exact(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
    """Exact attention of q (B, H, N, K) to k and v (B, H, R, K), with gradients; None where torch has to do it."""
    if not _plain(q, k, v) or q.shape[-1] % LANES or not _alike(k, v) or not _alike(q[:, :, :0], k[:, :, :0]):
        return None
    if torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v)):
        return _Exact.apply(q, k, v)  # pyright: ignore[reportReturnType]
    return _call("exact", (q, k, v), (_like(q),), q.shape, k.shape[-2], None)


class _Exact(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        logs = q.new_empty(q.shape[:3])
        out = _call("exact", (q, k, v), (_like(q),), q.shape, k.shape[-2], logs.data_ptr())
        if out is None:
            raise MemoryError("no memory for attention")
        ctx.save_for_backward(q, k, v, out, logs)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, out, logs = ctx.saved_tensors
        found = _like(q), _like(k), _like(v)
        if _call("exact_backward", (q, k, v, out, grads[0]), found, q.shape, k.shape[-2], logs.data_ptr()) is None:
            raise MemoryError("no memory for the gradient of attention")
        return found


def local(out: Tensor, v: Tensor, filters: Tensor, grid: tuple[int, int]) -> Tensor | None:
    """out (B, H, N, K) + the convolution of v over the grid that the last tokens lie on, `filters` (H K, 1, side, side), with gradients;
    None where torch has to do it."""
    if not _plain(out, v, filters) or v.shape[-1] % LANES or not _alike(out, v):
        return None
    return _Local.apply(out, v, filters, grid)  # pyright: ignore[reportReturnType]


class _Local(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, out: Tensor, v: Tensor, filters: Tensor, grid: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(v, filters)
        ctx.grid = grid
        by_tap = filters.flatten(1).t().contiguous()
        made = _call("local", (out, v), (_like(v),), v.shape, filters.shape[-1], by_tap.data_ptr(), *grid)
        if made is None:
            raise MemoryError("no memory for a convolution")
        return made

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,), (v, filters) = grads, ctx.saved_tensors
        side, (b, h, _, d) = filters.shape[-1], v.shape
        turned = filters.flip(-1, -2).flatten(1).t().contiguous()
        dv = _call("local", (grad.new_zeros(d).expand_as(grad), grad), (_like(v),), v.shape, side, turned.data_ptr(), *ctx.grid)
        taps = v.new_empty(b, side * side, h, d)
        _call("local_filters", (grad, v), (taps,), v.shape, side, *ctx.grid)
        return grad, dv, taps.sum(0).flatten(1).t().reshape_as(filters), None


def nystrom(q: Tensor, k: Tensor, v: Tensor, landmarks: int, iterations: int, filters: Tensor | None) -> Tensor | None:
    """Attention with the convolution of v added, `filters` (H, 2 side + 1), with gradients; None where torch has to do it."""
    given = (q, k, v) if filters is None else (q, k, v, filters)
    if landmarks % LANES or q.shape[-1] % LANES or not _plain(*given) or not _alike(q, k, v):
        return None
    if torch.is_grad_enabled() and any(t.requires_grad for t in given):
        return _Nystrom.apply(q, k, v, filters, landmarks, iterations)  # pyright: ignore[reportReturnType]
    return _nystrom(q, k, v, filters, landmarks, iterations)


def _nystrom(q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None, landmarks: int, iterations: int) -> Tensor | None:
    padded = None if filters is None else _padded(filters)
    return _call("nystrom", (q, k, v), (_like(q),), q.shape, landmarks, iterations, *_filter(padded))


def _padded(filters: Tensor) -> Tensor:
    return F.pad(filters.detach(), (3, 3)).contiguous()


def _filter(padded: Tensor | None) -> tuple[int | None, int]:
    return (None, 0) if padded is None else (padded.data_ptr(), (padded.shape[1] - 7) // 2)


class _Nystrom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, filters: Tensor | None, landmarks: int, iterations: int) -> Tensor:
        ctx.save_for_backward(q, k, v, filters)
        ctx.sizes = landmarks, iterations
        out = _nystrom(q, k, v, filters, landmarks, iterations)
        if out is None:
            raise MemoryError("no memory for attention")
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, filters = ctx.saved_tensors
        dfilters = q.new_empty(*q.shape[:2], 1) if filters is None else q.new_empty(len(q), *filters.shape)
        made = _like(q), _like(k), _like(v), dfilters
        padded = None if filters is None else _padded(filters.flip(1))
        if _call("nystrom_backward", (q, k, v, grads[0]), made, q.shape, *ctx.sizes, *_filter(padded)) is None:
            raise MemoryError("no memory for the gradient of attention")
        return *made[:3], None if filters is None else dfilters.sum(0), None, None


def _alike(*tensors: Tensor) -> bool:
    """Of one shape: C would read past the end of a shorter one."""
    return len({t.shape for t in tensors}) == 1


def _can(*tensors: Tensor) -> bool:
    """Heads that fit, in memory that can be read, and no autograd."""
    watched = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    return not watched and tensors[0].shape[-1] % LANES == 0 and _plain(*tensors)


def _plain(*tensors: Tensor) -> bool:
    """Plain float32 memory, and nobody who would want to see every operation: no tracer, compiler, transform or mode."""
    if any(type(t) not in (Tensor, nn.Parameter) or t.device.type != "cpu" or t.dtype != torch.float32 for t in tensors):
        return False
    traced = torch.compiler.is_compiling() or is_tracing() or is_in_torch_dispatch_mode() or ops.transformed()
    return not traced and library() is not None


def _like(x: Tensor) -> Tensor:
    """Room for (B, H, N, K), in the order in which heads are put together again."""
    b, h, n, d = x.shape
    return x.new_empty(b, n, h, d).transpose(1, 2)


def _call(name: str, given: tuple[Tensor, ...], made: tuple[Tensor, ...], shape: torch.Size, *options: object) -> Tensor | None:
    """Fill the tensors `made` from those `given`; the first of them, or None when there was no memory."""
    tensors = *(t if t.stride(-1) == 1 else t.contiguous() for t in given), *made
    strides = (ctypes.c_long * (3 * len(tensors)))(*(step for t in tensors for step in t.stride()[:3]))
    failed = getattr(_loaded(), name)(*(t.data_ptr() for t in tensors), strides, *shape, *options)
    return None if failed else made[0]
