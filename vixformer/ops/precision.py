"""Sums, exponentials and divisions are float32 whatever comes in: in half precision features overflow silently."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """x in float32, or in float64 where it is that already."""
    return x if x.dtype == torch.float64 else x.float()


def widest(x: Tensor) -> Tensor:
    """x in float64, for features whose range or cancellation float32 cannot hold; Apple's GPUs have nothing wider."""
    return x if x.device.type == "mps" else x.double()
