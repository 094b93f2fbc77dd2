"""Compiled kernels, optional in every way: without a C compiler or with `VIX_NATIVE=0`, torch does the work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from vixformer.ops.native import targets
from vixformer.ops.native.build import Status, library, status

__all__ = [
    "LANES",
    "WIDTH",
    "Status",
    "apart",
    "calls",
    "instructions",
    "library",
    "like",
    "loaded",
    "on",
    "parts",
    "pointer",
    "readable",
    "run",
    "settled",
    "side_by_side",
    "status",
    "vendor",
]  # fmt: skip
WIDTH = 8
"""Widths of values and ranks must be multiples of this."""
LANES = 16
"""Head width and landmarks must be multiples of this. Features are made in groups of it."""

T = TypeVar("T")
_calls = 0


def settled(question: Callable[[], T]) -> Callable[[], T]:
    """For torch.compile: the answer at compilation holds. (`torch.compiler.assume_constant_result` takes a second to
    import.)"""
    question._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return question


@settled
def on() -> bool:
    """Whether there are kernels."""
    return library() is not None


@settled
def instructions() -> str:
    """What the kernels were compiled for; nothing where there are none."""
    return status().instructions or ""


@settled
def vendor() -> str:
    """Who made the processor."""
    return targets.vendor()


def calls() -> int:
    """How often a compiled kernel has run in this process."""
    return _calls


def loaded() -> ctypes.CDLL:
    """The library, for a call of one of its functions."""
    global _calls
    built = library()
    if built is None:
        raise RuntimeError(
            "this program was compiled for kernels that are off here: compile it inside `with"
            " vixformer.ops.portable():`"
        )
    _calls += 1
    return built


def run(name: str, given: tuple[Tensor, ...], made: tuple[Tensor, ...], shape: torch.Size, *options: object) -> None:
    """Fill the tensors `made` from those `given`, (B, H, N, K) all of them, float32 or all of them bfloat16."""
    tensors = *(_in_place(t) for t in given), *made
    dtypes = {t.dtype for t in tensors}
    if dtypes not in ({torch.float32}, {torch.bfloat16}):
        raise TypeError(f"compiled kernels take float32 or bfloat16, not {', '.join(str(t.dtype) for t in tensors)}")
    strides = (ctypes.c_long * (3 * len(tensors)))(*(step for t in tensors for step in t.stride()[:3]))
    half = torch.bfloat16 in dtypes
    if getattr(loaded(), name)(*(t.data_ptr() for t in tensors), strides, *shape, half, *options):
        raise MemoryError("no memory for attention")


def _in_place(x: Tensor) -> Tensor:
    """As kernels read it: rows are contiguous, and pairs of bfloat16 lie at multiples of four bytes."""
    if x.stride(-1) != 1:
        return x.contiguous()
    if x.dtype is torch.bfloat16 and (x.data_ptr() % 4 or any(step % 2 for step in x.stride()[:3])):
        return x.clone(memory_format=torch.contiguous_format)
    return x


def readable(*tensors: Tensor) -> tuple[Tensor, ...]:
    """As they are where kernels take them, float32 or all of them bfloat16; else in float32."""
    return tensors if all(t.dtype is torch.bfloat16 for t in tensors) else tuple(t.float() for t in tensors)


def pointer(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def like(x: Tensor) -> Tensor:
    """Room for (B, H, N, K), in the order in which heads are put together again."""
    b, h, n, d = x.shape
    return x.new_empty(b, n, h, d).transpose(1, 2)


def side_by_side(x: Tensor) -> Tensor:
    """Room for the gradients of q, k and v, (B, N, 3, H, K), as they lie in the gradient of the layer that made
    them."""
    b, h, n, d = x.shape
    return x.new_empty(b, n, 3, h, d)


def parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three of them, each (B, H, N, K)."""
    q, k, v = x.transpose(1, 3).unbind(2)
    return q, k, v


def apart(made: list[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, which lie side by side where they can."""
    return parts(made[0]) if len(made) == 1 else tuple(made)
