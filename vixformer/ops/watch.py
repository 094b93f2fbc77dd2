"""Who looks at the operations of a program while it runs."""

from __future__ import annotations

import torch
from torch import Tensor


def room(x: Tensor) -> Tensor | None:
    """`out=` for an elementwise step on a tensor nobody else holds: the tensor itself, unless autograd, a compiler or vmap is watching."""
    return None if x.requires_grad or torch.compiler.is_compiling() or transformed() else x


def transformed() -> bool:
    """Whether vmap, grad or another transform of torch.func is at work: tensors then stand for something else."""
    return torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]
