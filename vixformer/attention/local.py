"""A depthwise convolution of v over the image, beside attention: it gives back the local detail that a sum over all
tokens blurs."""
# B images  N tokens  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Mechanism, Shape
from vixformer.ops import Grid


@dataclass(frozen=True, kw_only=True)
class LocalConfig(Mechanism.Config):
    """Options of a core that may hold that convolution; `conv` is the side of its window."""

    causal: bool = False
    conv: int | None = None

    def __post_init__(self) -> None:
        if self.conv is not None and (self.conv < 1 or self.conv % 2 == 0):
            raise ValueError(f"conv is the side of a square window and must be an odd number or none, not {self.conv}")
        if self.conv is not None and self.causal:
            raise ValueError("the convolution looks ahead: causal=true needs conv=none")

    @property
    def square(self) -> bool:
        return self.conv is not None or self.causal


class Local(nn.Conv2d):
    """A core calls it around what it made: out + the convolution of v. `channels` is H K, or K where all heads share
    their filters.

    It needs the grid that backbones hand down; without one it is left out, and tokens in front of the grid (class
    tokens) never take part.
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
        return (
            (weight, bias)
            if times == 1
            else (weight.repeat(times, 1, 1, 1), None if bias is None else bias.repeat(times))
        )

    def imitate(self) -> None:
        for weight in self.parameters():
            nn.init.zeros_(weight)

    def macs(self, n: int, shape: Shape) -> int:
        """As if none of the n tokens were a class token."""
        return n * shape.num_heads * shape.values * self.kernel_size[0] ** 2


def _hidden(v: Tensor, mask: Tensor | None) -> Tensor:
    return v if mask is None else v.masked_fill(~mask[:, None, :, None], 0.0)
