"""Features of queries and keys."""

from __future__ import annotations

import torch
from torch import Tensor

from vixformer.ops.precision import widest
from vixformer.ops.watch import room


def stable_exp(u: Tensor, square: Tensor | None, eps: float, keys: bool, mask: Tensor | None, causal: bool) -> Tensor:
    """exp(u - square - c) + eps. c cancels in the division: the largest u of a query itself, of all keys of an image and head.

    Without eps, c is the largest exponent instead of the largest u, so that the features of an image never all vanish. Under a causal mask
    c knows of the future, and eps, measured against it, would tell; so there is no eps, and float64 holds keys far smaller than the last.
    """
    if causal:
        u, eps = widest(u), 0.0
    if square is not None and eps == 0:
        # one after the other: exponents above zero would come of rounding the sum of square and c; that of a query cancels
        u, square = torch.sub(u, square, out=room(u)) if keys else u, None
    if keys and mask is not None:
        u = u.masked_fill(~mask[:, None, :, None], torch.finfo(u.dtype).min)
    top = u.detach().amax((-1, -2) if keys else -1, keepdim=True)
    u = torch.sub(u, top if square is None else square + top, out=room(u))
    u = torch.exp(u, out=room(u))
    return u if eps == 0 else torch.add(u, eps, out=room(u))


def softmax_features(u: Tensor) -> Tensor:
    """softmax(u), at least 1e-12 as in Hedgehog's own code: for large u, queries and keys otherwise have no feature in common."""
    return u.softmax(-1).clamp(min=1e-12)


def orthogonal_rows(rows: int, columns: int, scaling: str, generator: torch.Generator | None = None) -> Tensor:
    """(rows, columns): blocks of Haar-distributed orthogonal matrices, row norms those of Gaussian rows (chi) or all sqrt(columns); `iid`
    is independent Gaussian rows."""
    if scaling == "iid":
        return torch.randn(rows, columns, generator=generator)
    blocks = []
    for _ in range(-(-rows // columns)):
        q, r = torch.linalg.qr(torch.randn(columns, columns, generator=generator))
        blocks.append(q * r.diagonal().sign())  # without the signs QR favours some rotations over others
    directions = torch.cat(blocks)[:rows]
    if scaling == "sqrt":
        return directions * columns**0.5
    return directions * torch.randn(rows, columns, generator=generator).norm(dim=1, keepdim=True)
