"""Call a core with the arguments of `scaled_dot_product_attention`, as other libraries do."""

# B images  H heads  N queries  M keys  K head width

from __future__ import annotations

import torch
from torch import Tensor

from vixformer.attention.base import Core
from vixformer.attention.project.projection import full_precision
from vixformer.ops import Grid

MASKED = -1e4
"""A number at or below this in a mask that is added to scores hides a key: float16 has no room for much less."""


def attend(
    core: Core,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    grid: Grid | None = None,
) -> Tensor:
    """(B, H, N, K), for q (B, H, N, K), k and v (B, H, M, K) or with fewer heads that several queries share."""
    if dropout:
        raise ValueError(
            f"{core.name} has no attention weights to drop, and the model drops {dropout:g} of them: set its attention"
            " dropout to 0"
        )
    if causal and not getattr(core.config, "causal", False):
        raise ValueError(
            f"this {core.name} lets every token see all others, and the model asks for causal attention: write"
            " causal=true in its options, if it has that option"
        )
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    if scale is not None and abs(scale * q.shape[-1] ** 0.5 - 1) > 1e-6:
        q = q * (scale * q.shape[-1] ** 0.5)  # cores scale by the root of the head width themselves
    seen = None if mask is None else kept(core, mask, k.shape[0], k.shape[2])
    with full_precision(q):
        return core(q, k, v, seen, grid)


def kept(core: Core, mask: Tensor, batch: int, keys: int) -> Tensor:
    """(B, M), true = keep, of a mask that can be broadcast to (B, H, N, M): one that hides the same keys of all
    queries. Rows of queries that see nothing, because they are padding themselves, do not count."""
    if mask.dtype != torch.bool:
        hidden = mask <= MASKED
        if not _tracing() and bool(((mask != 0) & ~hidden).any()):
            raise ValueError(
                f"{core.name} has no scores to add the numbers of this mask to (relative positions are such numbers):"
                " it takes masks that hide keys"
            )
        mask = ~hidden
    mask = mask.reshape(*(1,) * (4 - mask.dim()), *mask.shape) if mask.dim() < 4 else mask
    seen = mask.flatten(1, 2).any(1)
    if mask.shape[1] * mask.shape[2] > 1 and not _tracing():
        rows = mask.flatten(1, 2)
        if not bool(((rows == seen[:, None]) | ~rows.any(-1, keepdim=True)).all()):
            raise ValueError(
                f"{core.name} takes a mask that hides the same keys of all queries, and this mask hides different ones"
                " (causal and windowed masks do): leave it out"
            )
    if core.mask == "refused":
        raise ValueError(f"{core.name} takes no mask: leave it out, or use another mechanism")
    return seen.expand(batch, keys)


def _tracing() -> bool:
    return torch.compiler.is_compiling()
