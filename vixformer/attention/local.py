"""A depthwise convolution of v over the image, beside attention: it gives back the local detail that a sum over all tokens blurs."""
# B images  N tokens  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Core, Shape
from vixformer.ops import Grid


class Local(nn.Conv2d):
    """out + the convolution of v. `channels` is H K, or K where all heads share their filters.

    It needs the grid that backbones hand down; without one it is left out, and tokens in front of the grid (class tokens) never take part.
    """

    def __init__(self, channels: int, side: int, bias: bool = False) -> None:
        super().__init__(channels, channels, side, padding=side // 2, groups=channels, bias=bias)

    def forward(self, out: Tensor, v: Tensor, mask: Tensor | None, grid: Grid | None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        if grid is None:
            return out
        return ops.add_convolution(out, _hidden(v, mask), *self.filters(v), grid)

    def reference(self, out: Tensor, v: Tensor, mask: Tensor | None, grid: Grid | None) -> Tensor:
        """The same, a neighbor at a time."""
        return out if grid is None else ops.add_convolution_slow(out, _hidden(v, mask), *self.filters(v), grid)

    def filters(self, v: Tensor) -> tuple[Tensor, Tensor | None]:
        """One for every channel of every head, and their biases."""
        weight, bias = self.weight.to(v.dtype), None if self.bias is None else self.bias.to(v.dtype)
        times = v.shape[1] * v.shape[-1] // len(weight)
        return (weight, bias) if times == 1 else (weight.repeat(times, 1, 1, 1), None if bias is None else bias.repeat(times))


def _hidden(v: Tensor, mask: Tensor | None) -> Tensor:
    return v if mask is None else v.masked_fill(~mask[:, None, :, None], 0.0)


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
