"""What runs an operation: a compiled kernel or torch. The only place that decides, and the only one that asks who is
watching."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import torch
from torch import Tensor, nn
from torch.jit._trace import is_tracing
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from vixformer.ops import native

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
"""What operations that compute in float32 whatever they are given take."""

KEEPS_STRIDES = hasattr(torch.Tag, "needs_exact_strides")
"""From torch 2.8 on. An older compiler may copy what kernels read as it lies, so it gets torch's operations."""

_portable = 0


@contextlib.contextmanager
def portable() -> Generator[None, None, None]:
    """Inside, operations are made of torch's own: for programs that run without vixformer, and counts that every
    machine agrees on."""
    global _portable
    _portable += 1
    try:
        yield
    finally:
        _portable -= 1


@native.settled
def transformed() -> bool:
    """Whether vmap, grad or another transform of torch.func is at work: tensors then stand for something else."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]


def eager() -> bool:
    """Whether tensors are themselves, one operation after the other: no compiler, no tracer, no transform of
    torch.func."""
    return not (torch.compiler.is_compiling() or is_tracing() or transformed())


def unwatched() -> bool:
    """Whether, besides, nobody wants to see every operation: then a kernel is called without a detour through torch's
    dispatcher."""
    return eager() and not is_in_torch_dispatch_mode()


def kernel_takes(*tensors: Tensor | None, dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> bool:
    """Whether a compiled kernel may run on these tensors. A compiler then sees it as one operation, which it keeps; a
    tracer and the transforms of torch.func, which have to see through it, get torch's."""
    if _portable or any(t is not None and (t.device.type != "cpu" or t.dtype not in dtypes) for t in tensors):
        return False
    if torch.compiler.is_compiling():
        return KEEPS_STRIDES and not transformed() and native.on()
    if is_tracing() or transformed() or not native.on():
        return False
    return is_in_torch_dispatch_mode() or all(t is None or type(t) in (Tensor, nn.Parameter) for t in tensors)


def products_are_faster(dtype: torch.dtype) -> bool:
    """Whether the kernels' products of matrices beat torch's: MKL, which torch has for float32, uses AVX-512 on Intel's
    processors alone."""
    found = native.instructions()
    fits = found == "avx512-bf16" if dtype is torch.bfloat16 else found.startswith("avx512")
    return fits and native.vendor() != "GenuineIntel"


def room(x: Tensor) -> Tensor | None:
    """`out=` for an elementwise step on a tensor nobody else holds: the tensor itself, unless autograd, a compiler or
    vmap is watching."""
    return x if not x.requires_grad and eager() else None


def wanted(*tensors: Tensor | None) -> bool:
    """Whether autograd will ask for a gradient."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def prepare() -> None:
    """Load the compiled kernels now and not at their first call: for a process that measures, or forks."""
    native.on()
