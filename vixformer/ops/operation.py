"""How torch gets to know an operation that a compiled kernel runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd.function import FunctionCtx
from torch.utils.flop_counter import register_flop_formula

from vixformer.ops.choice import KEEPS_STRIDES, unwatched

TAGS = (torch.Tag.pt2_compliant_tag, *([torch.Tag.needs_exact_strides] if KEEPS_STRIDES else []))


Sizes = Sequence[int]
Function = Callable[..., Any]
Arguments = tuple[Any, ...]
"""Tensors and plain values, in the order of a schema."""
Gradients = tuple[Tensor | None, ...]


class Context(FunctionCtx):
    """What forward leaves for backward."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    others: Arguments
    """Values that are no tensors, and `Tensor` in the place of each that is one."""


def applied(function: type[torch.autograd.Function], *args: object) -> Any:
    """`function.apply(*args)`, which has no types."""
    return function.apply(*args)


class Operation:
    """`call(*args)` runs it. `forward` and `backward` fill new tensors and know nothing of autograd. Torch has both by
    name, so that compilers, counters and fake tensors see one operation each; where nobody is watching, they are called
    without that detour.

    `forward` takes what `takes` says and returns what `gives` says: a tensor, or several, of which all but the first
    `results` are for backward alone.
    `backward` takes what `keeps` says, chosen by `kept` from the arguments and all that forward made, and a gradient of
    each result. It returns what `returns` says, and `gradients` makes of that one for each argument. Fakes are of the
    same shapes and strides. An operation that is its own gradient, or nearly so, has no `backward` and a
    `differentiate` of its own.
    """

    takes: ClassVar[str]
    gives: ClassVar[str]
    keeps: ClassVar[str]
    returns: ClassVar[str]
    results: ClassVar[int] = 1

    # written with the arguments of their schema
    forward: ClassVar[Function]
    fake: ClassVar[Function]
    kept: ClassVar[Callable[[Arguments, Any], Arguments]]
    backward: ClassVar[Function]
    fake_backward: ClassVar[Function]
    gradients: ClassVar[Callable[[Any, Arguments, tuple[Tensor, ...]], Gradients]]
    flops: ClassVar[Callable[..., int]]
    """Of `forward`, from the shapes of the tensors that it takes and from its other arguments."""
    backward_flops: ClassVar[Callable[..., int]]

    op: ClassVar[OpOverload]
    backward_op: ClassVar[OpOverload]
    direct: ClassVar[type[torch.autograd.Function]]
    autocast: ClassVar[torch.dtype | None] = torch.float32
    """What autocast makes of its tensors; None: it leaves them."""

    def __init_subclass__(cls, name: str) -> None:
        cls.op = _known(name, f"({cls.takes}) -> {cls.gives}", cls.forward, cls.fake, cls.flops, cls.autocast)
        torch.library.register_autograd(cls.op, cls.differentiate, setup_context=cls._remember)
        if hasattr(cls, "backward"):
            given = ", ".join(f"Tensor grad{i}" for i in range(cls.results))
            schema = f"({cls.keeps}, {given}) -> {cls.returns}"
            cls.backward_op = _known(
                f"{name}_backward", schema, cls.backward, cls.fake_backward, cls.backward_flops, cls.autocast
            )
            torch.library.register_autograd(cls.backward_op, _refuse)
        cls.direct = type(
            f"_{cls.__name__}", (torch.autograd.Function,), {"forward": cls._forward, "backward": cls.differentiate}
        )

    @classmethod
    def call(cls, *args: object) -> Any:
        if not unwatched():
            made = cls.op(*args)
        elif torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in args):
            return applied(cls.direct, *args)
        else:
            made = cls.forward(*args)
        return cls._shown(made)

    @classmethod
    def _shown(cls, made: Sequence[Tensor] | Tensor) -> Any:
        return made if isinstance(made, Tensor) else made[0] if cls.results == 1 else made[: cls.results]

    @classmethod
    def _forward(cls, ctx: Context, *args: object) -> Any:
        made = cls.forward(*args)
        cls._remember(ctx, args, made)
        return cls._shown(made)

    @classmethod
    def _remember(cls, ctx: Context, inputs: Arguments, output: object) -> None:
        kept = cls.kept(inputs, output)
        ctx.save_for_backward(*(x for x in kept if isinstance(x, Tensor)))
        ctx.others = tuple(Tensor if isinstance(x, Tensor) else x for x in kept)

    @staticmethod
    def recalled(ctx: Context) -> Arguments:
        tensors = iter(ctx.saved_tensors)
        return tuple(next(tensors) if other is Tensor else other for other in ctx.others)

    @classmethod
    def differentiate(cls, ctx: Context, *grads: Tensor) -> Gradients:
        kept = cls.recalled(ctx)
        # a gradient of this gradient has to see where it comes from
        backward = cls.backward if unwatched() and not torch.is_grad_enabled() else cls.backward_op
        return cls.gradients(backward(*kept, *grads[: cls.results]), kept, grads)


def _known(
    name: str,
    schema: str,
    run: Function,
    fake: Function,
    flops: Callable[..., int],
    autocast: torch.dtype | None,
) -> OpOverload:
    """The operation as torch calls it: kernels are for CPUs."""
    full = f"vixformer::{name}"
    torch.library.define(full, schema, tags=TAGS)
    torch.library.impl(full, "CPU")(run)
    torch.library.register_fake(full)(fake)
    # from torch 2.7 on; before, mechanisms widen what they give
    if autocast is not None and hasattr(torch.library, "register_autocast"):
        torch.library.register_autocast(full, "cpu", autocast)
    packet = getattr(torch.ops.vixformer, name)
    register_flop_formula(packet)(lambda *args, out_shape=None, **_: flops(*args))
    return packet.default


def _refuse(ctx: Context, *grads: Tensor) -> Gradients:
    raise NotImplementedError(
        "compiled kernels have no second derivatives: compute them inside "
        "`with vixformer.ops.portable(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):`"
    )
