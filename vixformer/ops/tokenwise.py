"""What is done to each token on its own between products: GELU and layer norm."""

# D width

from __future__ import annotations

import ctypes

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.choice import eager, kernel_takes, products_are_faster
from vixformer.ops.native import pointer
from vixformer.ops.operation import Arguments, Context, Gradients, Operation

DTYPES = (torch.float32, torch.bfloat16)
SMALL = 2**16
"""Numbers below which torch takes less time than the call of a kernel."""
PARTS = 16
"""Pieces in which the gradients of scale and shift are summed."""


def gelu(x: Tensor) -> Tensor:
    """x Phi(x), as `torch.nn.functional.gelu`."""
    return Gelu.call(x) if _worth(x) else F.gelu(x)


def gelu_slow(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x * 0.5**0.5)) / 2


def layer_norm(x: Tensor, scale: Tensor | None, shift: Tensor | None, eps: float) -> Tensor:
    """x (..., D), scale and shift (D), as `torch.nn.functional.layer_norm`."""
    width = x.shape[-1:]
    if scale is None or shift is None or not (width == scale.shape == shift.shape):
        return F.layer_norm(x, width if scale is None else scale.shape, scale, shift, eps)
    fits = width[0] % native.LANES == 0 and {scale.dtype, shift.dtype} <= {x.dtype, torch.float32}
    if not fits or not _worth(x, scale, shift):
        return F.layer_norm(x, width, scale, shift, eps)
    return LayerNorm.call(x, scale, shift, eps)


def layer_norm_slow(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    y = x - x.mean(-1, keepdim=True)
    return y / (y.square().mean(-1, keepdim=True) + eps).sqrt() * scale + shift


def _worth(x: Tensor, *others: Tensor) -> bool:
    """A compiler makes one program of these and of what is around them. Narrow vectors are no faster than torch's."""
    if not eager() or x.numel() < SMALL or not products_are_faster(torch.float32):
        return False
    return kernel_takes(x, *others, dtypes=DTYPES)


class Gelu(Operation, name="gelu"):
    takes = "Tensor x"
    gives = "Tensor"
    keeps = "Tensor x"
    returns = "Tensor"
    autocast = None

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        out, x = Gelu.fake(x), x.contiguous()
        _loaded(x).gelu(x.data_ptr(), None, out.data_ptr(), x.numel(), x.dtype is torch.bfloat16)
        return out

    @staticmethod
    def fake(x: Tensor, *_: object) -> Tensor:
        return x.new_empty(x.shape)

    @staticmethod
    def kept(inputs: Arguments, made: object) -> Arguments:
        return inputs

    @classmethod
    def differentiate(cls, ctx: Context, *grads: Tensor) -> Gradients:
        if torch.is_grad_enabled():  # torch knows the gradient of this
            return (torch.ops.aten.gelu_backward(*grads, *cls.recalled(ctx)),)
        return super().differentiate(ctx, *grads)

    @staticmethod
    def backward(x: Tensor, grad: Tensor) -> Tensor:
        dx, x, grad = Gelu.fake(x), x.contiguous(), grad.to(x.dtype).contiguous()
        _loaded(x).gelu(x.data_ptr(), grad.data_ptr(), dx.data_ptr(), x.numel(), x.dtype is torch.bfloat16)
        return dx

    fake_backward = fake

    @staticmethod
    def gradients(made: Tensor, kept: Arguments, _: object) -> Gradients:
        return (made,)

    @staticmethod
    def flops(*_: object) -> int:
        return 0

    backward_flops = flops


class LayerNorm(Operation, name="layer_norm"):
    takes = "Tensor x, Tensor scale, Tensor shift, float eps"
    gives = "(Tensor, Tensor)"
    keeps = "Tensor x, Tensor scale, Tensor shift, Tensor stats, float eps"
    returns = "(Tensor, Tensor)"
    autocast = None

    @staticmethod
    def forward(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        (out, stats), x = LayerNorm.fake(x), x.contiguous()
        given = x, scale.float().contiguous(), shift.float().contiguous(), out, stats
        rows = stats.numel() // 2
        _loaded(x).layer_norm(*map(pointer, given), rows, x.shape[-1], x.dtype is torch.bfloat16, eps)
        return out, stats

    @staticmethod
    def fake(x: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape), x.new_empty((*x.shape[:-1], 2), dtype=torch.float32)

    @staticmethod
    def kept(inputs: Arguments, made: tuple[Tensor, Tensor]) -> Arguments:
        return *inputs[:3], made[1], inputs[3]

    @classmethod
    def differentiate(cls, ctx: Context, *grads: Tensor) -> Gradients:
        if not torch.is_grad_enabled():
            return super().differentiate(ctx, *grads)
        x, scale, shift, _, eps = cls.recalled(ctx)
        asked = [t for t, needed in zip((x, scale, shift), ctx.needs_input_grad, strict=False) if needed]
        out = F.layer_norm(x, scale.shape, scale, shift, eps)
        made = iter(torch.autograd.grad(out, asked, grads, create_graph=True))
        return *(next(made) if needed else None for needed in ctx.needs_input_grad[:3]), None

    @staticmethod
    def backward(
        x: Tensor, scale: Tensor, shift: Tensor, stats: Tensor, eps: float, grad: Tensor
    ) -> tuple[Tensor, Tensor]:
        (dx, sums), x, grad = LayerNorm.fake_backward(x), x.contiguous(), grad.to(x.dtype).contiguous()
        given = x, grad, scale.float().contiguous(), stats, dx, sums
        rows = stats.numel() // 2
        _loaded(x).layer_norm_backward(*map(pointer, given), rows, x.shape[-1], x.dtype is torch.bfloat16, PARTS)
        return dx, sums

    @staticmethod
    def fake_backward(x: Tensor, *_: object) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape), x.new_empty(PARTS, 2, x.shape[-1], dtype=torch.float32)

    @staticmethod
    def gradients(made: tuple[Tensor, Tensor], kept: Arguments, _: object) -> Gradients:
        dx, sums = made
        return dx, *sums.sum(0).unbind(), None

    @staticmethod
    def flops(*_: object) -> int:
        return 0

    backward_flops = flops


def _loaded(x: Tensor) -> ctypes.CDLL:
    if x.dtype not in DTYPES:
        raise TypeError(f"compiled kernels take float32 or bfloat16, not {x.dtype}")
    return native.loaded()
