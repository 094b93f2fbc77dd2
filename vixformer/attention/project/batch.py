"""q, k and v between batch norms, as in LeViT."""

# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from vixformer.attention.base import Shape
from vixformer.attention.project.projection import Attention, Heads
from vixformer.nn.activations import activation
from vixformer.nn.norms import LinearNorm
from vixformer.ops import Grid


class BatchNormProjection(Attention, name="batch"):
    """q, k and v each by a linear layer and batch norm, an activation and the same for the output.

    With `stride` only some rows and columns have a query, and the grid shrinks.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        value_ratio: int = 1
        """How much wider values are than queries and keys."""
        stride: int = 1
        """Query stride: only every n-th row and column produces a query."""
        out_dim: int | None = None
        """Width of the tokens that come out; left out, that of those that go in."""
        act: str = "gelu"
        """Before the output projection."""

    config: Config

    def make_projections(self, shape: Shape) -> None:
        config, inner = self.config, shape.num_heads * shape.head_dim
        self.strided = config.stride > 1
        self.q, self.k = (LinearNorm(shape.dim, inner, config.qkv_bias) for _ in range(2))
        self.v = LinearNorm(shape.dim, inner * config.value_ratio, config.qkv_bias)

    def make_output(self, shape: Shape) -> nn.Module:
        config, inner = self.config, shape.num_heads * shape.head_dim * self.config.value_ratio
        return nn.Sequential(
            activation(config.act), LinearNorm(inner, config.out_dim or shape.dim, bias=config.out_bias)
        )

    def split(self, x: Tensor, grid: Grid | None) -> Heads:
        return self.by_head(self.q(self._asking(x, grid))), self.by_head(self.k(x)), self.by_head(self.v(x))

    def _asking(self, x: Tensor, grid: Grid | None) -> Tensor:
        """The tokens that have a query."""
        stride = self.config.stride
        if stride == 1:
            return x
        if grid is None:
            raise ValueError("attention that shrinks the grid needs to know it: pass grid=(height, width)")
        if grid[0] * grid[1] != x.shape[1]:
            raise ValueError(
                f"attention that shrinks the grid needs every token on it, and {grid[0]} x {grid[1]} is not"
                f" {x.shape[1]}: pass the grid of these tokens"
            )
        return x.unflatten(1, grid)[:, ::stride, ::stride].flatten(1, 2)
