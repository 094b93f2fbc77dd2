"""The sizes that operations accept: compiled kernels trust the shapes that they are given."""

from __future__ import annotations

from torch import Tensor


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """For q (B, H, N, K), k (B, H, keys, K) and v (B, H, keys, any width)."""
    asked, seen, values = q.shape, k.shape, v.shape
    if (
        not len(asked) == len(seen) == len(values) == 4
        or asked[:2] != seen[:2]
        or seen[:3] != values[:3]
        or asked[3] != seen[3]
    ):
        raise ValueError(
            "attention takes q (batch, heads, tokens, width), k (batch, heads, keys, width) and v (batch, heads, keys,"
            f" any width), not {tuple(asked)}, {tuple(seen)}, {tuple(values)}"
        )
    if asked[2] == 0 or seen[2] == 0:
        raise ValueError("there must be at least one token")
