"""Exact attention in a window: tokens in segments of `window`, each seeing its own and its neighbors (causal: the one
before)."""
# C segments

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.ops.softmax import softmax_attention, softmax_weights


def window_attention(
    q: Tensor, k: Tensor, v: Tensor, window: int, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    n = q.shape[-2]
    if n <= window:
        return softmax_attention(q, k, v, mask, causal)
    segments = -(-n // window)
    after = 0 if causal else window
    padded = (0, 0, window, segments * window - n + after)
    seen = torch.ones(1, n, dtype=torch.bool, device=q.device) if mask is None else mask
    seen = F.pad(seen, padded[2:]).unfold(-1, 2 * window + after, window).unsqueeze(-2)  # (B, C, 1, keys)
    if causal:
        seen = seen & torch.ones(window, 2 * window, dtype=torch.bool, device=q.device).tril(window)
    seen = seen.repeat(1, q.shape[1], 1, 1)
    # (B, H C, window, K)
    queries = F.pad(q, (0, 0, 0, segments * window - n)).unflatten(-2, (segments, window)).flatten(1, 2)
    keys, values = (F.pad(t, padded).unfold(-2, 2 * window + after, window).flatten(1, 2).mT for t in (k, v))
    # four dimensions, for which torch has a fused kernel
    out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
    return out.unflatten(1, (-1, segments)).flatten(2, 3)[..., :n, :]


def window_weights(q: Tensor, k: Tensor, window: int, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    segment = torch.arange(q.shape[-2], device=q.device) // window
    near = (segment[:, None] - segment).abs() <= 1
    return softmax_weights(q, k, mask, causal, torch.zeros_like(near, dtype=q.dtype).masked_fill(~near, -torch.inf))


def window_attention_macs(n: int, k: int, window: int, causal: bool) -> int:
    if n <= window:
        return 2 * n * n * k
    return 2 * -(-n // window) * window * (2 if causal else 3) * window * k
