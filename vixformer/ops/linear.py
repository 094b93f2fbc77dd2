"""Linear attention: phi(q) (phi(k)' v) / (phi(q) . sum phi(k))."""
# B images  N tokens  H heads  K head width  M features  C chunks of T tokens

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def _divide(sums_and_total: Tensor, eps: float, floor: float | None) -> Tensor:
    """The last column is the normalizer. `floor` keeps one that may be negative away from zero; the others are only kept off 0 / 0, and
    far enough that gradients, which are divided by it, do not overflow."""
    total = sums_and_total[..., -1:] + eps
    kept_off = (
        total.clamp(min=1e8 * torch.finfo(total.dtype).tiny)
        if floor is None
        else torch.where(total < 0, total.clamp(max=-floor), total.clamp(min=floor))
    )
    return sums_and_total[..., :-1] / kept_off


def linear_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float = 0.0, floor: float | None = None) -> Tensor:
    """phi_q, phi_k (B, H, N, M), v (B, H, N, K), float32. The normaliser rides along as one more column of the context."""
    context = torch.cat([phi_k.transpose(-1, -2) @ v, phi_k.sum(-2).unsqueeze(-1)], -1)
    return _divide(phi_q @ context, eps, floor)


CHUNK = 64


def causal_linear_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float = 0.0, floor: float | None = None) -> Tensor:
    """Each token sees itself and those before it: prefix sums over chunks of tokens, the quadratic form inside a chunk."""
    n = v.shape[-2]
    size = min(CHUNK, n)
    v = F.pad(v, (0, 1), value=1.0)
    phi_q, phi_k, v = (F.pad(t, (0, 0, 0, -n % size)).unflatten(-2, (-1, size)) for t in (phi_q, phi_k, v))  # B H C T .
    context = phi_k.transpose(-1, -2) @ v
    before = F.pad(context[..., :-1, :, :].cumsum(-3), (0, 0, 0, 0, 1, 0))  # shifted: to subtract the chunk itself would round the past
    inside = (phi_q @ phi_k.transpose(-1, -2)).tril() @ v
    return _divide((phi_q @ before + inside).flatten(-3, -2)[..., :n, :], eps, floor)


def linear_attention_macs(n: int, m: int, k: int, causal: bool) -> int:
    if not causal:
        return n * m * k + n * m * (k + 1)
    size = min(CHUNK, n)
    padded = n + -n % size
    return 2 * padded * m * (k + 1) + padded * size * (m + k + 1)


def linear_weights(phi_q: Tensor, phi_k: Tensor, causal: bool = False, eps: float = 0.0, floor: float | None = None) -> Tensor:
    weights = phi_q @ phi_k.transpose(-1, -2)
    if causal:
        weights = weights.tril()
    return _divide(torch.cat([weights, weights.sum(-1, keepdim=True)], -1), eps, floor)
