"""Attention in plain PyTorch."""

# B images  N tokens  H heads  K head width

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Own(nn.Module):
    """As people write it."""

    def __init__(self, causal: bool = False, bias: bool = False) -> None:
        super().__init__()
        self.qkv, self.proj, self.causal = nn.Linear(32, 96), nn.Linear(32, 32), causal
        self.bias = nn.Parameter(torch.randn(9, 9)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, 4, 8).permute(2, 0, 3, 1, 4)
        return self.proj(
            F.scaled_dot_product_attention(q, k, v, self.bias, is_causal=self.causal).transpose(1, 2).flatten(2)
        )
