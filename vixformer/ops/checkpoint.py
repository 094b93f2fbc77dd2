"""Run a part of a mechanism again in backward instead of keeping what it made."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from vixformer.ops.watch import transformed


class _Attend(nn.Module):
    """A method of a core as a module, so that backward can run it with the weights that forward saw."""

    def __init__(self, core: nn.Module, attend: str) -> None:
        super().__init__()
        self.core, self.attend = core, attend

    def forward(self, *args: Any) -> Tensor:
        return getattr(self.core, self.attend)(*args)


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, core: nn.Module, attend: str, mask: Tensor | None, names: list[str], *tensors: Tensor) -> Tensor:
        ctx.module, ctx.mask, ctx.names = _Attend(core, attend), mask, names
        ctx.save_for_backward(*tensors)
        return ctx.module(*tensors[: len(tensors) - len(names)], mask)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        saved = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        split = len(saved) - len(ctx.names)
        weights = {f"core.{name}": t for name, t in zip(ctx.names, saved[split:], strict=True)}
        kind = saved[0].device.type
        with torch.enable_grad(), torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext():
            out = torch.func.functional_call(ctx.module, weights, (*saved[:split], ctx.mask))
            asked = [t for t in saved if t.requires_grad]
            # what asks may be weights of the core that this method does not use
            wanted = iter(torch.autograd.grad(out, asked, grads, allow_unused=True) if out.requires_grad else [None] * len(asked))
        return None, None, None, None, *(next(wanted) if t.requires_grad else None for t in saved)


def recompute(core: nn.Module, attend: str, mask: Tensor | None, *inputs: Tensor, beside: tuple[str, ...] = ()) -> Tensor:
    """`core.attend(*inputs, mask)`, keeping nothing but the inputs for backward, which runs it again.

    Features are many times larger than the q and k they are made of, and cheap to make. Weights and buffers are kept as they are, so a
    change of them between forward and backward is an error and not a wrong gradient. `beside` begins the names of weights that `attend`
    does not use. A compiler decides for itself what to recompute, and the transforms of torch.func see the plain computation.
    """
    state = {name: t for name, t in (*core.named_parameters(), *core.named_buffers()) if not name.startswith(beside)}
    watched = torch.is_grad_enabled() and any(t.requires_grad for t in (*inputs, *state.values()))
    if not watched or torch.compiler.is_compiling() or transformed():
        return getattr(core, attend)(*inputs, mask)
    return _Recompute.apply(core, attend, mask, list(state), *inputs, *state.values())  # pyright: ignore[reportReturnType]
