"""Exact attention."""

# N tokens  K head width

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops import native
from vixformer.ops.checks import check_heads
from vixformer.ops.choice import FLOATS, kernel_takes, wanted
from vixformer.ops.operation import Arguments, Gradients, Operation, Sizes
from vixformer.ops.precision import wide

SHORT = 512
"""Keys up to which the compiled kernel is never slower than torch's, forward and backward, whatever the processor
(docs/speed.md)."""


def key_mask(mask: Tensor | None, n: int, causal: bool) -> Tensor | None:
    """What each query may see, ready to broadcast over (B, H, N, N); None when that is everything."""
    seen = None if mask is None else mask[:, None, None, :]
    if causal:
        past = torch.ones(n, n, dtype=torch.bool, device=None if mask is None else mask.device).tril()
        seen = past if seen is None else seen & past
    return seen


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
    drop: float = 0.0,
) -> Tensor:
    """`drop` is the dropout rate of the attention weights."""
    check_heads(q, k, v)
    if mask is None and bias is None and not causal and not drop and (_always_faster(q.dtype) or k.shape[-2] <= SHORT):
        fast = exact_attention(q, k, v)
        if fast is not None:
            return fast
    if mask is None and bias is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=causal)
    seen = key_mask(mask, q.shape[-2], causal)
    if bias is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=drop)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=bias[None] if seen is None else bias.masked_fill(~seen, -torch.inf), dropout_p=drop
    )


def _always_faster(dtype: torch.dtype) -> bool:
    """Whether the compiled kernel beats torch's at any length: with the instructions that it needs for this dtype."""
    found = native.instructions()
    return found == "avx512-bf16" if dtype is torch.bfloat16 else found.startswith("avx512")


def exact_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
    """By the compiled kernel; None where torch has to do it."""
    if q.shape[-1] % native.LANES or v.shape[-1] != q.shape[-1] or not kernel_takes(q, k, v, dtypes=FLOATS):
        return None
    tensors = native.readable(q, k, v)
    return ExactAttention.call(*tensors, wanted(*tensors)).to(v.dtype)


class ExactAttention(Operation, name="exact_attention"):
    takes = "Tensor q, Tensor k, Tensor v, bool train"
    gives = "(Tensor, Tensor)"
    keeps = "Tensor q, Tensor k, Tensor v, Tensor out, Tensor logs"
    returns = "Tensor[]"

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, train: bool) -> tuple[Tensor, Tensor]:
        out, logs = ExactAttention.fake(q, k, v, train)
        native.run("exact", (q, k, v), (out,), q.shape, k.shape[2], logs.data_ptr() if train else None)
        return out, logs

    @staticmethod
    def fake(q: Tensor, k: Tensor, v: Tensor, train: bool) -> tuple[Tensor, Tensor]:
        return native.like(q), q.new_empty(q.shape[:3] if train else 0, dtype=torch.float32)

    @staticmethod
    def kept(inputs: Arguments, made: tuple[Tensor, ...]) -> Arguments:
        return *inputs[:3], *made

    @staticmethod
    def backward(q: Tensor, k: Tensor, v: Tensor, out: Tensor, logs: Tensor, grad: Tensor) -> list[Tensor]:
        made = ExactAttention.fake_backward(q, k, v)
        native.run("exact_backward", (q, k, v, out, grad), native.apart(made), q.shape, k.shape[2], logs.data_ptr())
        return made

    @staticmethod
    def fake_backward(q: Tensor, k: Tensor, v: Tensor, *_: object) -> list[Tensor]:
        return [native.side_by_side(q)] if q.shape == k.shape else [native.like(q), native.like(k), native.like(v)]

    @staticmethod
    def gradients(made: list[Tensor], kept: Arguments, _: object) -> Gradients:
        return *native.apart(made), None

    @staticmethod
    def flops(q: Sizes, k: Sizes, *_: object) -> int:
        b, h, n, d = q
        return 4 * b * h * n * k[2] * d

    @staticmethod
    def backward_flops(q: Sizes, k: Sizes, *_: object) -> int:
        return ExactAttention.flops(q, k) * 5 // 2  # the weights are made again


def softmax_weights(
    q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None
) -> Tensor:
    scores = wide(q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2))
    scores = scores if bias is None else scores + bias
    seen = key_mask(mask, q.shape[-2], causal)
    if seen is None:
        return scores.softmax(-1)
    # who sees nothing takes nothing
    return scores.masked_fill(~seen.to(scores.device), -torch.inf).softmax(-1).nan_to_num(0.0)


def softmax_attention_slow(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    bias: Tensor | None = None,
    drop: float = 0.0,
) -> Tensor:
    """All N x N weights are in memory at once, and are kept for backward."""
    weights = softmax_weights(q, k, mask, causal, bias)
    return ((F.dropout(weights, drop) if drop else weights) @ wide(v)).to(v.dtype)
