"""Exact attention."""
# N tokens  K head width

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops.precision import wide


def key_mask(mask: Tensor | None, n: int, causal: bool) -> Tensor | None:
    """What each query may see, ready to broadcast over (B, H, N, N); None when that is everything."""
    seen = None if mask is None else mask[:, None, None, :]
    if causal:
        past = torch.ones(n, n, dtype=torch.bool, device=None if mask is None else mask.device).tril()
        seen = past if seen is None else seen & past
    return seen


def softmax_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None, drop: float = 0.0
) -> Tensor:
    """`drop` is the dropout rate of the attention weights."""
    if mask is None and bias is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=causal)
    seen = key_mask(mask, q.shape[-2], causal)
    if bias is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=drop)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=bias[None] if seen is None else bias.masked_fill(~seen, -torch.inf), dropout_p=drop
    )


def softmax_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None) -> Tensor:
    scores = wide(q * q.shape[-1] ** -0.5 @ k.transpose(-1, -2))
    scores = scores if bias is None else scores + bias
    seen = key_mask(mask, q.shape[-2], causal)
    if seen is None:
        return scores.softmax(-1)
    return scores.masked_fill(~seen.to(scores.device), -torch.inf).softmax(-1).nan_to_num(0.0)  # who sees nothing takes nothing


def softmax_attention_slow(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False, bias: Tensor | None = None, drop: float = 0.0
) -> Tensor:
    """All N x N weights are in memory at once, and are kept for backward."""
    weights = softmax_weights(q, k, mask, causal, bias)
    return ((F.dropout(weights, drop) if drop else weights) @ wide(v)).to(v.dtype)
