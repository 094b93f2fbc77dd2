"""Rotary positions."""
# N tokens  K head width

from __future__ import annotations

import torch
from torch import Tensor

from vixformer.ops.precision import wide

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines (N, K / 2)."""


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (x_0, x_1), (x_2, x_3), ... of (B, H, N, K) by the angles of their token."""
    even, odd = wide(x).unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2).to(x.dtype)
