"""Linformer: exact attention over keys and values projected along the tokens, K' = E'K and V' = F'V
(arXiv:2006.04768)."""
# B images  N tokens  H heads  K head width  R rank

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Core, Shape
from vixformer.ops import Grid


class Linformer(Core, name="linformer"):
    """`share`: `none`, E and F a head; `headwise`, one E and one F for all heads; `kv`, E = F; `layerwise`, one matrix
    for the model.

    Built for a number of tokens. Fewer use the first rows of E and F; more are an error.
    """

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(Core.Config):
        rank: PositiveInt = 64
        share: Literal["headwise", "kv", "layerwise"] | None = "headwise"

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        n, rank = shape.keys_for("linformer"), config.rank

        def fresh(*lead: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*lead, n, rank).uniform_(-(rank**-0.5), rank**-0.5))

        drawn = fresh(shape.num_heads) if config.share is None else fresh()
        self.E = shape.shared.setdefault(("linformer", n, rank), drawn) if config.share == "layerwise" else drawn
        self.F = fresh(*self.E.shape[:-2]) if config.share in (None, "headwise") else None

    def imitate(self) -> None:
        """Means of segments of tokens; those in front of the grid have one each."""
        n, rank = self.E.shape[-2:]
        grid = self.shape.grid
        front = 0 if grid is None else n - grid[0] * grid[1]
        front = front if 0 <= front < min(n, rank) else 0
        segment = torch.cat([torch.arange(front), front + torch.arange(n - front) * (rank - front) // (n - front)])
        means = F.one_hot(segment, rank).float()
        means = means / means.sum(0).clamp(min=1.0)
        with torch.no_grad():
            for matrix in (self.E, self.F):
                if matrix is not None:
                    matrix.copy_(means)

    def matrices(self, n: int) -> tuple[Tensor, Tensor]:
        """E and F for n tokens, (N, R), or (H, N, R) with `share=none`."""
        built = self.E.shape[-2]
        if n > built:
            raise ValueError(
                f"this linformer was built for {built} tokens and got {n}: build the model for the larger image"
            )
        return self.E[..., :n, :], (self.E if self.F is None else self.F)[..., :n, :]

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return ops.linformer_attention(q, _hide(k, mask), _hide(v, mask), *self.matrices(k.shape[-2]))

    def reference(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
    ) -> Tensor:
        return ops.linformer_attention_slow(q, _hide(k, mask), _hide(v, mask), *self.matrices(k.shape[-2]))

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        """What reaches v."""
        weights = ops.linformer_weights(q, _hide(k, mask), *self.matrices(k.shape[-2]))
        return weights if mask is None else weights.masked_fill(~mask[:, None, None, :], 0.0)

    def macs(self, n: int) -> int:
        return 4 * n * self.config.rank * self.shape.num_heads * self.shape.head_dim


def _hide(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x.masked_fill(~mask[:, None, :, None], 0.0)
