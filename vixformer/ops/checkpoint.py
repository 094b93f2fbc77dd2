"""Run a part of a mechanism again in backward instead of keeping what it made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from vixformer.ops.choice import transformed, wanted
from vixformer.ops.operation import Context, Gradients, applied


class _Attend(nn.Module):
    """A method of a core as a module, so that backward can run it with the weights that forward saw."""

    def __init__(self, core: nn.Module, attend: str) -> None:
        super().__init__()
        self.core, self.attend = core, attend

    def forward(self, *args: Tensor | None) -> Tensor:
        return getattr(self.core, self.attend)(*args)


class _Context(Context):
    again: Callable[..., Tensor]


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, now: Callable[..., Tensor], again: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        ctx.again = again
        ctx.save_for_backward(*tensors)
        return now(*tensors)

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> Gradients:
        twice = torch.is_grad_enabled()  # a gradient of this gradient has to see where it comes from
        saved = ctx.saved_tensors if twice else [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        kind = saved[0].device.type
        with (
            torch.enable_grad(),
            torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext(),
        ):
            out = ctx.again(*saved)
            asked = [t for t in saved if t.requires_grad]
            # what asks may be weights of the core that this method does not use
            found = (
                torch.autograd.grad(out, asked, grads, create_graph=twice, allow_unused=True)
                if out.requires_grad
                else ()
            )
        rest = iter(found or [None] * len(asked))
        return None, None, *(next(rest) if t.requires_grad else None for t in saved)


def recompute_function(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """`function(*tensors)`, keeping nothing but the tensors for backward, which runs it again.

    Features are many times larger than the q and k they are made of, and cheap to make. A compiler decides for itself
    what to recompute, and the transforms of torch.func see the plain computation.
    """
    if not wanted(*tensors) or torch.compiler.is_compiling() or transformed():
        return function(*tensors)
    return applied(_Recompute, function, function, *tensors)


def recompute(
    core: nn.Module, attend: str, mask: Tensor | None, *inputs: Tensor, beside: tuple[str, ...] = ()
) -> Tensor:
    """The same for `core.attend(*inputs, mask)`. Weights and buffers are kept as they are, so a change of them between
    forward and backward is an error and not a wrong gradient. `beside` begins the names of weights that `attend` does
    not use."""
    state = {name: t for name, t in (*core.named_parameters(), *core.named_buffers()) if not name.startswith(beside)}
    if not wanted(*inputs, *state.values()) or torch.compiler.is_compiling() or transformed():
        return getattr(core, attend)(*inputs, mask)
    module = _Attend(core, attend)

    def now(*tensors: Tensor) -> Tensor:
        return module(*tensors[: len(inputs)], mask)

    def again(*tensors: Tensor) -> Tensor:
        weights = {f"core.{name}": t for name, t in zip(state, tensors[len(inputs) :], strict=True)}
        return torch.func.functional_call(module, weights, (*tensors[: len(inputs)], mask))

    return applied(_Recompute, now, again, *inputs, *state.values())
