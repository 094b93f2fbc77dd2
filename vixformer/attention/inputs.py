"""The sizes that attention accepts. Every call passes here, whichever way computes it: compiled code trusts the shapes
it is given."""

# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vixformer.ops import Grid

if TYPE_CHECKING:
    from vixformer.attention.base import Core


def check_tokens(x: Tensor, dim: int, mask: Tensor | None = None, grid: Grid | None = None) -> None:
    """For tokens (B, N, D)."""
    if x.dim() != 3 or x.shape[-1] != dim:
        raise ValueError(f"tokens must have the shape (batch, tokens, {dim}), not {tuple(x.shape)}")
    if x.shape[1] == 0:
        raise ValueError("there must be at least one token")
    _check_mask(mask, x.shape[0], x.shape[1])
    _check_grid(grid, x.shape[1])


def check_heads(
    core: Core, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
) -> None:
    """For q (B, H, N, K), k and v (B, H, keys, K); values may be wider."""
    shape, asked, seen, values = core.shape, q.shape, k.shape, v.shape
    heads, width, wide = shape.num_heads, shape.head_dim, shape.values
    if (
        not len(asked) == len(seen) == len(values) == 4
        or asked != (asked[0], heads, asked[2], width)
        or seen != (asked[0], heads, seen[2], width)
        or values != (asked[0], heads, seen[2], wide)
    ):
        raise ValueError(
            f"this {core.name} takes q (batch, {heads}, tokens, {width}), k (batch, {heads}, keys, {width}) and "
            f"v (batch, {heads}, keys, {wide}), not {tuple(asked)}, {tuple(seen)}, {tuple(values)}: "
            "build it for the heads and widths that you pass"
        )
    if not (q.is_floating_point() and k.is_floating_point() and v.is_floating_point()):
        raise ValueError(
            f"q, k and v must be floating-point tensors, not {q.dtype}, {k.dtype} and {v.dtype}: call .float() on them"
        )
    n, keys = asked[2], seen[2]
    if n == 0 or keys == 0:
        raise ValueError("there must be at least one token")
    if n != keys and core.square:
        raise ValueError(f"{core.name} needs as many keys as queries, and there are {keys} and {n}")
    _check_mask(mask, asked[0], keys)
    _check_grid(grid, keys)


def _check_mask(mask: Tensor | None, batch: int, n: int) -> None:
    if mask is not None and (mask.dtype != torch.bool or mask.shape != (batch, n)):
        raise ValueError(
            f"a mask must be boolean with the shape (batch, tokens) = ({batch}, {n}), true = keep; got {mask.dtype}"
            f" {tuple(mask.shape)}"
        )


def _check_grid(grid: Grid | None, n: int) -> None:
    if grid is None:
        return
    if len(grid) != 2 or any(isinstance(side, float) or side < 1 for side in grid):
        raise ValueError(f"a grid is (height, width), whole numbers, both at least 1, not {grid}")
    if grid[0] * grid[1] > n:
        raise ValueError(f"a grid of {grid[0]} x {grid[1]} has more places than the {n} tokens given")
