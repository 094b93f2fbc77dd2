"""Normalisations of tokens, by name."""
# B images  N tokens  D width

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-6
NormName = Literal["layer", "channel", "batch", "none"]


class ChannelNorm(nn.Module):
    """A layer norm whose weights are bare parameters, so that the count of "Vision Xformers" leaves them out, as it does for its CvT."""

    def __init__(self, dim: int, eps: float = EPS) -> None:
        super().__init__()
        self.eps = eps
        self.scale, self.shift = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.scale.shape, self.scale, self.shift, self.eps)


class TokenBatchNorm(nn.BatchNorm1d):
    """Over all tokens of all images: (B, N, D)."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.transpose(1, 2)).transpose(1, 2)


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "layer": lambda dim, eps: nn.LayerNorm(dim, eps=eps),
    "channel": ChannelNorm,
    "batch": lambda dim, eps: TokenBatchNorm(dim),
    "none": lambda dim, eps: nn.Identity(),
}


def make_norm(name: NormName, dim: int, eps: float = EPS) -> nn.Module:
    return NORMS[name](dim, eps)
