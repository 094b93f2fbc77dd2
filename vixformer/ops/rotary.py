"""From one product to q, k and v, and rotary positions."""

# B images  N tokens  H heads  K head width

from __future__ import annotations

import torch
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.choice import kernel_takes, unwatched, wanted
from vixformer.ops.operation import Arguments, Context, Gradients, Operation, Sizes, applied
from vixformer.ops.precision import wide

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines (N, K / 2)."""


def split_heads(qkv: Tensor, heads: int, rotation: Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(B, N, 3 H K) -> q, k, v, each (B, H, N, K), q and k turned where there is a rotation."""
    if qkv.dim() != 3 or qkv.shape[-1] % (3 * heads):
        raise ValueError(
            f"q, k and v of {heads} heads lie side by side in (batch, tokens, 3 x {heads} x width), not"
            f" {tuple(qkv.shape)}"
        )
    if rotation is not None:
        check_rotation(rotation, qkv.shape[1], qkv.shape[-1] // (3 * heads))
    turns = rotation is not None
    kernel = (
        unwatched()
        and _kernel_turns(qkv, *(rotation or ()))
        and not (turns and qkv.shape[-1] // (3 * heads) % native.WIDTH)
    )
    if kernel and (turns or wanted(qkv)):
        return applied(_Split, qkv, heads, *(rotation or ()))
    q, k, v = _split(qkv, heads)
    return (q, k, v) if rotation is None else (rotate(q, *rotation), rotate(k, *rotation), v)


def _kernel_turns(x: Tensor, *angles: Tensor) -> bool:
    return kernel_takes(x, dtypes=(torch.float32, torch.bfloat16)) and kernel_takes(*angles)


def _split(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    # split before heads: then the gradients of q, k and v are put side by side in one copy
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, -1))
    return q, k, v


def check_rotation(rotation: Rotation, n: int, width: int) -> None:
    """For rotary positions of N tokens: cosines and sines (N, K / 2)."""
    pair = rotation if isinstance(rotation, tuple | list) else (rotation,)
    if len(pair) != 2 or width % 2 or any(not isinstance(t, Tensor) or t.shape != (n, width // 2) for t in pair):
        got = ", ".join(str(tuple(t.shape)) if isinstance(t, Tensor) else repr(t) for t in pair)
        raise ValueError(
            f"rotation must be the cosines and sines of {n} tokens, one for each pair of the {width} channels of a"
            f" head: two tensors ({n}, {width // 2}), not {got}"
        )


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (x_0, x_1), (x_2, x_3), ... of (B, H, N, K) by the angles of their token."""
    if (
        x.dim() == 4
        and cos.dim() == 2
        and x.shape[-1] % native.WIDTH == 0
        and not wanted(cos, sin)
        and _kernel_turns(x, cos, sin)
    ):
        check_rotation((cos, sin), *x.shape[2:])
        return Rotate.call(*native.readable(x), cos, sin).to(x.dtype)
    even, odd = wide(x).unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).to(x.dtype)


class Rotate(Operation, name="rotate"):
    """Its gradient turns back."""

    takes = "Tensor x, Tensor cos, Tensor sin"
    gives = "Tensor"

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return _turn(x, native.like(x), _pairs(cos, sin), 1.0)

    @staticmethod
    def fake(x: Tensor, *_: object) -> Tensor:
        return native.like(x)

    @staticmethod
    def kept(inputs: Arguments, made: object) -> Arguments:
        return inputs[1:]

    @classmethod
    def differentiate(cls, ctx: Context, *grads: Tensor) -> Gradients:
        cos, sin = cls.recalled(ctx)
        return cls.call(grads[0], cos, -sin), None, None

    @staticmethod
    def flops(x: Sizes, *_: object) -> int:
        return 0  # torch counts products of matrices


def _pairs(cos: Tensor, sin: Tensor) -> Tensor:
    """For each token what its channels are multiplied by (K), then what their partners are (K)."""
    return torch.cat([cos.repeat_interleave(2, -1), torch.stack([-sin, sin], -1).flatten(-2)], -1)


def _turn(x: Tensor, out: Tensor, pairs: Tensor, way: float) -> Tensor:
    """x turned, or turned back where `way` is -1; `out` may be x."""
    native.run("rotate", (x,), (out,), x.shape, 0, pairs.data_ptr(), way)
    return out


class _Context(Context):
    rotation: tuple[Tensor, ...]
    pairs: Tensor


class _Split(torch.autograd.Function):
    """Gradients that lie side by side already are not put there once more. That of v does not where v is convolved too:
    it is a sum then, and goes where its first part was."""

    @staticmethod
    def forward(ctx: _Context, qkv: Tensor, heads: int, *rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = _split(qkv, heads)
        ctx.rotation = rotation
        if rotation:
            ctx.pairs = _pairs(*rotation)
            q, k = (_turn(x, native.like(x), ctx.pairs, 1.0) for x in (q, k))
        return q, k, v

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> Gradients:
        nothing = (None,) * (1 + len(ctx.rotation))
        if ctx.rotation and torch.is_grad_enabled():
            cos, sin = ctx.rotation
            grads = rotate(grads[0], cos, -sin), rotate(grads[1], cos, -sin), grads[2]
        whole = _joined(grads)
        if ctx.rotation and not torch.is_grad_enabled():
            for x in _split(whole, grads[0].shape[1])[:2]:
                _turn(x, x, ctx.pairs, -1.0)
        return whole, *nothing


def _joined(grads: tuple[Tensor, ...]) -> Tensor:
    b, h, n, d = grads[0].shape
    width = h * d
    first, strides = grads[0], (n * 3 * width, d, 3 * width, 1)
    shared, end = first.untyped_storage(), first.storage_offset() + b * n * 3 * width
    there = [
        g.untyped_storage().data_ptr() == shared.data_ptr() and g.storage_offset() == first.storage_offset() + i * width
        and g.stride() == strides
        for i, g in enumerate(grads)
    ]  # fmt: skip
    # a gradient of the gradient has to see where they come from
    if not all(there[:2]) or shared.nbytes() < end * first.element_size() or torch.is_grad_enabled():
        return torch.cat([g.transpose(1, 2).flatten(2) for g in grads], -1)
    whole = first.as_strided((b, n, 3 * width), (n * 3 * width, 3 * width, 1))
    if not there[2]:
        whole[..., 2 * width :] = grads[2].transpose(1, 2).flatten(2)
    return whole
