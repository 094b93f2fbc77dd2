"""A linear layer: x w' + b."""

# K channels that go in  N channels that come out

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.choice import kernel_takes, products_are_faster, unwatched
from vixformer.ops.native import pointer
from vixformer.ops.operation import Arguments, Context, Gradients, Operation, Sizes

DTYPES = (torch.float32, torch.bfloat16)
SMALL = 2**19
"""Multiply-adds below which torch's product takes less time than the call of a kernel."""

WIDE = 2**20
"""Weights of a layer from which torch's products of bfloat16 are faster."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (..., K), weight (N, K) and bias (N) -> (..., N), as `torch.nn.functional.linear`, under autocast too."""
    cast = torch.is_autocast_enabled("cpu")
    dtype = torch.get_autocast_dtype("cpu") if cast else x.dtype
    kernel = dtype in DTYPES and (cast or x.dtype == weight.dtype) and products_are_faster(dtype)
    if not kernel or (dtype is torch.bfloat16 and weight.numel() >= WIDE) or not _fits(x, weight, bias):
        return F.linear(x, weight, bias)
    return Affine.call(x.to(dtype), weight, bias)


def linear_slow(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """One channel of the result at a time."""
    out = torch.stack([(x * row).sum(-1) for row in weight], -1)
    return out if bias is None else out + bias


def _fits(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    return (
        x.dim() > 1
        and weight.dim() == 2
        and x.shape[-1] == weight.shape[1]
        and (bias is None or bias.shape == weight.shape[:1])
        and weight.shape[0] % native.LANES == weight.shape[1] % native.LANES == 0
        # a compiler would make one program for small batches and one for large ones
        and (torch.compiler.is_compiling() or x.numel() * weight.shape[0] >= SMALL)
        and kernel_takes(x, weight, bias, dtypes=DTYPES)
    )


class Affine(Operation, name="linear"):
    """Weights may be wider than x. Each gradient is made where it is asked for."""

    takes = "Tensor x, Tensor weight, Tensor? bias"
    gives = "Tensor"
    keeps = "Tensor? x, Tensor? weight"
    returns = "(Tensor, Tensor)"
    autocast = None

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out = Affine.fake(x, weight)
        given = None if bias is None else bias.float().contiguous()
        _product("affine", x, weight.to(x.dtype), given, out, sizes=weight.shape)
        return out

    @staticmethod
    def fake(x: Tensor, weight: Tensor, *_: object) -> Tensor:
        return x.new_empty((*x.shape[:-1], weight.shape[0]))

    @staticmethod
    def kept(inputs: Arguments, made: object) -> Arguments:
        x, weight, _ = inputs
        return x if weight.requires_grad else None, weight if x.requires_grad else None

    @classmethod
    def differentiate(cls, ctx: Context, *grads: Tensor) -> Gradients:
        (grad,), (x, weight) = grads, cls.recalled(ctx)
        dbias = grad.flatten(0, -2).sum(0, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        if torch.is_grad_enabled():  # torch knows the gradient of these
            dx = None if weight is None else grad @ weight.to(grad.dtype)
            return dx, None if x is None else grad.flatten(0, -2).mT @ x.flatten(0, -2), dbias
        dx, dw = (cls.backward if unwatched() else cls.backward_op)(x, weight, grad)
        return None if weight is None else dx, None if x is None else dw, dbias

    @staticmethod
    def backward(x: Tensor | None, weight: Tensor | None, grad: Tensor) -> tuple[Tensor, Tensor]:
        dx, dw = Affine.fake_backward(x, weight, grad)
        if weight is not None:
            _product("affine_input", grad, weight.to(grad.dtype), dx, sizes=weight.shape)
        if x is not None:
            _product("affine_weight", grad, x, dw, sizes=dw.shape)
        return dx, dw

    @staticmethod
    def fake_backward(x: Tensor | None, weight: Tensor | None, grad: Tensor) -> tuple[Tensor, Tensor]:
        dx = grad.new_empty(0 if weight is None else (*grad.shape[:-1], weight.shape[1]))
        dw = grad.new_empty(0 if x is None else (grad.shape[-1], x.shape[-1]), dtype=torch.float32)
        return dx, dw

    @staticmethod
    def flops(x: Sizes, weight: Sizes, *_: object) -> int:
        return 2 * torch.Size(x).numel() * weight[0]

    @staticmethod
    def backward_flops(x: Sizes | None, weight: Sizes | None, grad: Sizes) -> int:
        return 2 * torch.Size(grad).numel() * ((x[-1] if x else 0) + (weight[1] if weight else 0))


def _product(name: str, left: Tensor, right: Tensor, *rest: Tensor | None, sizes: torch.Size) -> None:
    if {left.dtype, right.dtype} not in ({torch.float32}, {torch.bfloat16}):
        raise TypeError(f"compiled kernels take float32 or bfloat16, not {left.dtype} with {right.dtype}")
    (n, k), half = sizes, left.dtype is torch.bfloat16
    given, rows = (left.contiguous(), right.contiguous()), left.numel() // left.shape[-1]
    if getattr(native.loaded(), name)(*map(pointer, (*given, *rest)), rows, k, n, half):
        raise MemoryError("no memory for a linear layer")
