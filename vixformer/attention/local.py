"""A depthwise convolution of v over the image, beside attention: it gives back the local detail that a sum over all tokens blurs."""
# B images  N tokens  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.attention.base import Core, Grid, Shape
from vixformer.ops import native


class Local(nn.Conv2d):
    """out + the convolution of v. `channels` is H K, or K where all heads share their filters.

    It needs the grid that backbones hand down; without one it is left out, and tokens in front of the grid (class tokens) never take part.
    """

    def __init__(self, channels: int, side: int, bias: bool = False) -> None:
        super().__init__(channels, channels, side, padding=side // 2, groups=channels, bias=bias)

    def forward(self, out: Tensor, v: Tensor, mask: Tensor | None, grid: Grid | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        if grid is None:
            return out
        if mask is not None:
            v = v.masked_fill(~mask[:, None, :, None], 0.0)
        heads, prefix = v.shape[1], v.shape[-2] - grid[0] * grid[1]
        times = heads * v.shape[-1] // len(self.weight)
        weight = self.weight.to(v.dtype).repeat(times, 1, 1, 1)
        bias = None if self.bias is None else self.bias.to(v.dtype).repeat(times)
        fast = native.local(out, v, weight, grid) if bias is None else None
        if fast is not None:
            return fast
        # as one filter a channel over (B, N, H K), the order in which the heads were made and are put together again: nothing is copied
        image = v.transpose(1, 2).flatten(2)[:, prefix:].unflatten(1, grid).permute(0, 3, 1, 2)
        local = F.conv2d(image, weight, bias, padding=self.padding, groups=len(weight))
        local = local.permute(0, 2, 3, 1).flatten(1, 2).unflatten(-1, (heads, -1)).transpose(1, 2)
        return out + F.pad(local, (0, 0, prefix, 0))

    def reference(self, out: Tensor, v: Tensor, mask: Tensor | None, grid: Grid | None) -> Tensor:
        """The same, a neighbour at a time."""
        if grid is None:
            return out
        if mask is not None:
            v = v.masked_fill(~mask[:, None, :, None], 0.0)
        (height, width), side, out = grid, self.kernel_size[0], out.clone()
        padded = F.pad(v[:, :, -height * width :].unflatten(2, grid), (0, 0, *[side // 2] * 4))
        sums = out[:, :, -height * width :].unflatten(2, grid)
        for y in range(side):
            for x in range(side):
                sums += self.weight[:, 0, y, x].to(v.dtype).view(-1, 1, 1, v.shape[-1]) * padded[:, :, y : y + height, x : x + width]
        if self.bias is not None:
            sums += self.bias.to(v.dtype).view(-1, 1, 1, v.shape[-1])
        return out


class LocalCore(Core):
    """A core beside which there may be that convolution, `conv` the side of its window, where backbones hand down the grid that tokens lie
    on."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        causal: bool = False
        conv: int | None = None

        def __post_init__(self) -> None:
            if self.conv is not None and (self.conv < 1 or self.conv % 2 == 0):
                raise ValueError(f"conv is the side of a square window and must be an odd number or none, not {self.conv}")
            if self.conv is not None and self.causal:
                raise ValueError("the convolution looks ahead: causal=true needs conv=none")

    def __init__(self, config: Any, shape: Shape) -> None:
        super().__init__(config, shape)
        self.conv = None if config.conv is None else self.make_conv(config.conv)

    def make_conv(self, side: int) -> Local:
        return Local(self.shape.num_heads * (self.shape.value_dim or self.shape.head_dim), side)

    def imitate(self) -> None:
        for weight in () if self.conv is None else self.conv.parameters():
            nn.init.zeros_(weight)

    @property
    def square(self) -> bool:
        return self.conv is not None or self.config.causal  # dynamo takes super().square for the property itself

    @property
    def uses_grid(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.conv is not None

    def local_macs(self, n: int) -> int:
        """As if none of the n tokens were a class token."""
        return self.shape.num_heads * n * (self.shape.value_dim or self.shape.head_dim) * (self.config.conv or 0) ** 2
