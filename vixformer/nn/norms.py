"""Normalizations of tokens, by name."""
# B images  N tokens  D width

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from vixformer.nn.dense import Linear
from vixformer.ops import layer_norm

EPS = 1e-6
NormName = Literal["layer", "channel", "batch", "none"]


class ChannelNorm(nn.Module):
    """A layer norm whose weights are bare parameters, so that the count of "Vision Xformers" leaves them out, as it
    does for its CvT."""

    def __init__(self, dim: int, eps: float = EPS) -> None:
        super().__init__()
        self.eps = eps
        self.scale, self.shift = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.scale, self.shift, self.eps)


class LayerNorm(nn.LayerNorm):
    def forward(self, input: Tensor) -> Tensor:
        return layer_norm(input, self.weight, self.bias, self.eps)


class TokenBatchNorm(nn.BatchNorm1d):
    """Over all tokens of all images: (B, N, D)."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.transpose(1, 2)).transpose(1, 2)


class LinearNorm(nn.Module):
    """A linear layer and batch norm over all tokens of all images."""

    def __init__(self, before: int, after: int, bias: bool = False) -> None:
        super().__init__()
        self.linear, self.norm = Linear(before, after, bias=bias), nn.BatchNorm1d(after)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x).flatten(0, 1)).unflatten(0, x.shape[:2])


NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "layer": lambda dim, eps: LayerNorm(dim, eps=eps),
    "channel": ChannelNorm,
    "batch": lambda dim, eps: TokenBatchNorm(dim),
    "none": lambda dim, eps: nn.Identity(),
}


def make_norm(name: NormName, dim: int, eps: float = EPS) -> nn.Module:
    return NORMS[name](dim, eps)
