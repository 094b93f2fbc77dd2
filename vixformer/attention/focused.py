"""Focused linear attention, FLatten (arXiv:2308.00442): cubed ReLU features, and a convolution of v that restores local detail."""
# B images  N tokens  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from vixformer.attention.base import Grid, Shape
from vixformer.attention.linear import LinearCore


class Focused(LinearCore, name="focused"):
    """phi(x) = y^power, with y = (ReLU(x) + 1e-6) / softplus(scale), at the length of y. The depthwise convolution over the image needs the
    grid that backbones hand down; without one it is left out, and tokens in front of the grid (class tokens) never take part in it.
    """

    uses_grid = True

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        power: PositiveFloat = 3.0
        conv: int | None = 5

        def __post_init__(self) -> None:
            if self.conv is not None and (self.conv < 1 or self.conv % 2 == 0):
                raise ValueError(f"conv is the side of a square window and must be an odd number or none, not {self.conv}")
            if self.conv is not None and self.causal:
                raise ValueError("the convolution looks ahead: causal=true needs conv=none")

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        width, side = shape.value_dim or shape.head_dim, config.conv
        self.scale = nn.Parameter(torch.zeros(shape.num_heads, 1, shape.head_dim))
        self.conv = None if side is None else nn.Conv2d(width, width, side, padding=side // 2, groups=width)

    def imitate(self) -> None:
        if self.conv is not None:
            nn.init.zeros_(self.conv.weight)
            nn.init.zeros_(self.conv.bias)  # pyright: ignore[reportArgumentType]

    @property
    def square(self) -> bool:
        return self.conv is not None or super().square

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        y = (F.relu(x) + 1e-6) / F.softplus(self.scale.to(x.dtype))
        length = y.norm(dim=-1, keepdim=True)
        y = (y / y.amax(-1, keepdim=True).detach()) ** self.config.power  # in range whatever the power
        return y * (length / y.norm(dim=-1, keepdim=True))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return self._local(super().forward(q, k, v, mask), v, mask, grid)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return self._local(super().reference(q, k, v, mask), v, mask, grid)

    def _local(self, out: Tensor, v: Tensor, mask: Tensor | None, grid: Grid | None) -> Tensor:
        if self.conv is None or grid is None:
            return out
        if mask is not None:
            v = v.masked_fill(~mask[:, None, :, None], 0.0)
        prefix = v.shape[-2] - grid[0] * grid[1]
        image = v[..., prefix:, :].flatten(0, 1).transpose(1, 2).unflatten(-1, grid)
        weight, bias = self.conv.weight.to(v.dtype), None if self.conv.bias is None else self.conv.bias.to(v.dtype)
        local = (
            F.conv2d(image, weight, bias, padding=self.conv.padding, groups=len(weight))
            .flatten(2)
            .transpose(1, 2)
            .unflatten(0, v.shape[:2])
        )
        return out + F.pad(local, (0, 0, prefix, 0))

    @property
    def width(self) -> int:
        return self.shape.head_dim

    def macs(self, n: int) -> int:
        window = 0 if self.conv is None else self.conv.weight.numel()  # counted for all n tokens, as if none were a class token
        return super().macs(n) + n * self.shape.num_heads * window
