"""A transformer block: tokens attend by the module that it is given, then each passes an MLP, with residuals around
both."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from vixformer.nn.norms import EPS, NormName, make_norm
from vixformer.ops import Grid, Rotation

NormPlace = Literal["pre", "post", "between"]


class DropPath(nn.Module):
    """Stochastic depth: in training, leave a residual branch out for some images and scale it up for the others
    (arXiv:1603.09382)."""

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
    """Norms stand before attention and MLP (pre), after each residual (post), or, as in CCT, before attention and after
    it (between)."""

    def __init__(
        self,
        dim: int,
        attn: nn.Module,
        mlp: nn.Module,
        drop_path: float = 0.0,
        norm_place: NormPlace = "pre",
        norm: NormName = "layer",
        norm_eps: float = EPS,
    ) -> None:
        super().__init__()
        self.norm1, self.attn = make_norm(norm, dim, norm_eps), attn
        self.norm2, self.mlp = make_norm(norm, dim, norm_eps), mlp
        self.drop_path = DropPath(drop_path)
        self.norm_place = norm_place
        self.checkpointed = False
        """Whether backward computes the block again, instead of keeping what it made."""

    def forward(self, x: Tensor, grid: Grid | None = None, rotation: Rotation | None = None) -> Tensor:
        if self.checkpointed and self.training and torch.is_grad_enabled():
            return checkpoint(self._forward, x, grid, rotation, use_reentrant=False)
        return self._forward(x, grid, rotation)

    def _forward(self, x: Tensor, grid: Grid | None, rotation: Rotation | None) -> Tensor:
        if self.norm_place == "post":
            x = self.norm1(x + self.drop_path(self.attn(x, grid=grid, rotation=rotation)))
            return self.norm2(x + self.drop_path(self.mlp(x)))
        x = x + self.drop_path(self.attn(self.norm1(x), grid=grid, rotation=rotation))
        if self.norm_place == "pre":
            return x + self.drop_path(self.mlp(self.norm2(x)))
        x = self.norm2(x)
        return x + self.drop_path(self.mlp(x))
