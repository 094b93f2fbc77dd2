"""Exact attention: the baseline to beat."""

# N tokens  H heads  K head width

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Core, Shape
from vixformer.attention.local import Local, LocalConfig
from vixformer.ops import Grid


class Softmax(Core, name="softmax"):
    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LocalConfig):
        bias: bool = False
        """A learned number for every head and distance in rows and columns, added to the scores, as in LeViT: for one
        image size."""
        drop: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
        """Dropout rate of the attention weights in training. Compiled kernels are then not used in training."""
        naive: bool = False
        """Compute all attention weights and keep them for backward, as code without a fused kernel does: a baseline for
        memory."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.causal and self.bias:
                raise ValueError("bias is for tokens on a grid, causal for a sequence: choose one of them")

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        if config.bias and shape.grid is None:
            raise ValueError(
                "softmax(bias=true) learns distances on a grid, and this layer was built without one: leave bias out"
            )
        places = 0 if shape.grid is None else shape.grid[0] * shape.grid[1]
        self.distances = nn.Parameter(torch.zeros(shape.num_heads, places)) if config.bias else None
        self.conv = None if config.conv is None else Local(shape.num_heads * shape.values, config.conv)
        self.uses_grid = self.conv is not None

    def imitate(self) -> None:
        if self.conv is not None:
            self.conv.imitate()

    @property
    def square(self) -> bool:
        return self.config.square

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        drop = self.config.drop if self.training else 0.0
        attend = ops.softmax_attention_slow if self.config.naive else ops.softmax_attention
        out = attend(q, k, v, mask, self.config.causal, self._bias(q, k, grid), drop)
        return out if self.conv is None else self.conv(out, v, mask, grid)

    def reference(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
    ) -> Tensor:
        out = ops.softmax_attention_slow(q, k, v, mask, self.config.causal, self._bias(q, k, grid))
        return out if self.conv is None else self.conv.reference(out, v, mask, grid)

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        return ops.softmax_weights(q, k, mask, self.config.causal, self._bias(q, k))

    def _bias(self, q: Tensor, k: Tensor, grid: Grid | None = None) -> Tensor | None:
        """(H, N queries, N keys). Tokens in front of the grid have none; fewer queries than keys are every second row
        and column, or so."""
        if self.distances is None or self.shape.grid is None:
            return None
        (height, width), queries, keys = self.shape.grid, q.shape[-2], k.shape[-2]
        front = (self.shape.num_tokens or height * width) - height * width
        strides = [s for s in range(1, max(height, width) + 1) if -(-height // s) * -(-width // s) == queries - front]
        if keys != front + height * width or not strides or grid not in (None, self.shape.grid):
            got = f"{keys} tokens" if grid is None else f"{grid[0]} x {grid[1]}"
            raise ValueError(
                f"softmax(bias=true) was built for a grid of {height} x {width} and got {got}: build it for that size"
            )
        rows, columns = (torch.arange(side, device=q.device) for side in (height, width))
        down = (rows[:: strides[0], None] - rows).abs()
        across = (columns[:: strides[0], None] - columns).abs()
        index = (down[:, None, :, None] * width + across[None, :, None, :]).flatten(2).flatten(0, 1)
        return F.pad(self.distances[:, index], (front, 0, front, 0)).to(q.dtype)

    def macs(self, n: int) -> int:
        return 2 * n * n * self.shape.num_heads * self.shape.head_dim + (
            0 if self.conv is None else self.conv.macs(n, self.shape)
        )
