"""Where a token is: added to the tokens (learned, sine-cosine) or turned into q and k (rotary), for any grid."""

# N tokens  D width  K head width  P tokens in front of the grid (class tokens)

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Self

from vixformer.ops import Grid, Rotation
from vixformer.registry import Named

START = 0.5


class Positions(nn.Module, Named, family="pos"):
    """`repeats` is how often the grid is listed one after the other, as the channels are by the `channel-pixels`
    stem."""

    def __init__(self, dim: int, head_dim: int, grid: Grid, prefix: int) -> None:
        super().__init__()
        self.dim, self.head_dim, self.grid, self.prefix = dim, head_dim, grid, prefix

    def spread(self, std: float) -> Self:
        """Start learned positions with this standard deviation instead of START."""
        return self

    def added(self, grid: Grid, repeats: int, device: torch.device) -> Tensor | None:
        """(1, P + N, D), to add to the tokens."""
        return None

    def add(self, x: Tensor, grid: Grid, repeats: int = 1) -> Tensor:
        added = self.added(grid, repeats, x.device)
        return x if added is None else x + added.to(x.dtype)

    def rotation(self, x: Tensor, grid: Grid, repeats: int = 1) -> Rotation | None:
        """Cosines and sines (P + N, K / 2), to rotate q and k of these tokens by."""
        return None


class NoPositions(Positions, name="none"):
    """The order of the tokens is unknown to the model."""


class Learned(Positions, name="learned"):
    """One vector a token, as in ViT; for another grid they are interpolated.

    They start about as large as the patches they are added to, where ViT starts at 0.02: a small model on few images
    then knows places from the first steps (MNIST, two epochs, width 64, half the layers Performers: 96.2 against 94.2 %
    test).
    """

    def __init__(self, dim: int, head_dim: int, grid: Grid, prefix: int) -> None:
        super().__init__(dim, head_dim, grid, prefix)
        self.embed = nn.Parameter(torch.empty(1, prefix + grid[0] * grid[1], dim))
        nn.init.normal_(self.embed, std=START)

    @torch.no_grad()
    def spread(self, std: float) -> Self:
        self.embed.mul_(std / START)
        return self

    def added(self, grid: Grid, repeats: int, device: torch.device) -> Tensor:
        front, places = self.embed[:, : self.prefix], self.embed[:, self.prefix :]
        if grid != self.grid:
            image = places.float().transpose(1, 2).unflatten(-1, self.grid)
            places = (
                F.interpolate(image, size=grid, mode="bicubic", antialias=True)
                .flatten(2)
                .transpose(1, 2)
                .to(places.dtype)
            )
        elif repeats == 1:
            return self.embed
        return torch.cat([front, *[places] * repeats], 1)


class SineCosine(Positions, name="sincos"):
    """Fixed sines and cosines of row and column, half of the width each; nothing for class tokens."""

    def __init__(self, dim: int, head_dim: int, grid: Grid, prefix: int) -> None:
        super().__init__(dim, head_dim, grid, prefix)
        if dim % 4:
            raise ValueError(f'pos="sincos" needs a width that 4 divides, not {dim}')

    def added(self, grid: Grid, repeats: int, device: torch.device) -> Tensor:
        rates = _rates(self.dim // 4, 10000.0, device)
        angles = [axis[:, None] * rates for axis in _coordinates(grid, device)]
        places = torch.cat([f(a) for a in angles for f in (torch.sin, torch.cos)], -1).repeat(repeats, 1)
        return F.pad(places, (0, 0, self.prefix, 0)).unsqueeze(0)


class Rotary(Positions, name="rope"):
    """Rotary positions along the sequence, class token at place 0 (arXiv:2104.09864)."""

    def __init__(self, dim: int, head_dim: int, grid: Grid, prefix: int) -> None:
        super().__init__(dim, head_dim, grid, prefix)
        if head_dim % 2:
            raise ValueError(f'pos="rope" turns pairs of channels and needs an even head width, not {head_dim}')

    def rotation(self, x: Tensor, grid: Grid, repeats: int = 1) -> Rotation:
        prefix = _prefix(x, grid, repeats)
        places = torch.arange(grid[0] * grid[1], device=x.device).repeat(repeats) + prefix
        places = torch.cat([torch.arange(prefix, device=x.device), places])
        return _turn(places[:, None] * _rates(self.head_dim // 2, 10000.0, x.device))


class AxialRotary(Positions, name="rope2d"):
    """Rotary positions in two dimensions: half of the pairs turn with the column, half with the row; class tokens do
    not turn."""

    def __init__(self, dim: int, head_dim: int, grid: Grid, prefix: int) -> None:
        super().__init__(dim, head_dim, grid, prefix)
        if head_dim % 4:
            raise ValueError(
                'pos="rope2d" turns pairs of channels along two axes and needs a head width that 4 divides, not'
                f" {head_dim}"
            )

    def rotation(self, x: Tensor, grid: Grid, repeats: int = 1) -> Rotation:
        rates = _rates(self.head_dim // 4, 100.0, x.device)
        rows, columns = _coordinates(grid, x.device)
        angles = torch.cat([columns[:, None] * rates, rows[:, None] * rates], -1).repeat(repeats, 1)
        return _turn(F.pad(angles, (0, 0, _prefix(x, grid, repeats), 0)))


def _prefix(x: Tensor, grid: Grid, repeats: int) -> int:
    """A class token may join in a later stage only, as in CvT."""
    return x.shape[1] - repeats * grid[0] * grid[1]


def _coordinates(grid: Grid, device: torch.device) -> tuple[Tensor, Tensor]:
    """Row and column of every place, row by row."""
    places = torch.arange(grid[0] * grid[1], device=device)
    return places // grid[1], places % grid[1]


def _rates(count: int, theta: float, device: torch.device) -> Tensor:
    return theta ** -(torch.arange(count, device=device) / count)


def _turn(angles: Tensor) -> Rotation:
    return angles.cos(), angles.sin()
