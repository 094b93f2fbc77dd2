"""A transformer block: tokens attend, then each passes an MLP, with residuals around both."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from vixformer.attention.base import Grid
from vixformer.attention.projection import Attention, Mixing, Rotation


class DropPath(nn.Module):
    """Stochastic depth: in training, leave a residual branch out for some images and scale it up for the others (arXiv:1603.09382)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep = torch.empty(x.shape[0], *[1] * (x.dim() - 1), dtype=x.dtype, device=x.device).bernoulli_(1 - self.rate)
        return x * keep / (1 - self.rate)

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class Block(nn.Module):
    def __init__(
        self, dim: int, attn: Attention | Mixing, mlp: nn.Module, drop_path: float = 0.0, norm_place: Literal["pre", "post"] = "pre"
    ) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim, eps=1e-6), attn
        self.norm2, self.mlp = nn.LayerNorm(dim, eps=1e-6), mlp
        self.drop_path = DropPath(drop_path)
        self.pre = norm_place == "pre"

    def forward(self, x: Tensor, grid: Grid | None = None, rotation: Rotation | None = None) -> Tensor:
        if self.pre:
            x = x + self.drop_path(self.attn(self.norm1(x), grid=grid, rotation=rotation))
            return x + self.drop_path(self.mlp(self.norm2(x)))
        x = self.norm1(x + self.drop_path(self.attn(x, grid=grid, rotation=rotation)))
        return self.norm2(x + self.drop_path(self.mlp(x)))
