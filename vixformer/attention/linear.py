"""Linear attention: one op, many feature maps. A subclass says what phi is."""
# B images  N tokens  H heads  K head width  M features

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vixformer.attention import native, ops
from vixformer.attention.base import Core, Grid, Shape
from vixformer.attention.local import Local


class LinearCore(Core):
    """phi(q) (phi(k)' v) / (phi(q) . sum phi(k)), in float32, keeping q, k and v for backward and no feature.

    `conv` adds a depthwise convolution of v over windows of that side, where backbones hand down the grid that tokens lie on.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        causal: bool = False
        conv: int | None = None

        def __post_init__(self) -> None:
            if self.conv is not None and (self.conv < 1 or self.conv % 2 == 0):
                raise ValueError(f"conv is the side of a square window and must be an odd number or none, not {self.conv}")
            if self.conv is not None and self.causal:
                raise ValueError("the convolution looks ahead: causal=true needs conv=none")

    eps: float = 0.0
    """Added to the normaliser."""
    floor: float | None = None
    """The least size of the normaliser, for feature maps that may be negative."""

    def __init__(self, config: Any, shape: Shape) -> None:
        super().__init__(config, shape)
        self.causal: bool = config.causal
        self.conv = None if config.conv is None else self.make_conv(config.conv)

    def make_conv(self, side: int) -> Local:
        return Local(self.shape.num_heads * (self.shape.value_dim or self.shape.head_dim), side)

    def imitate(self) -> None:
        for weight in () if self.conv is None else self.conv.parameters():
            nn.init.zeros_(weight)

    @property
    def square(self) -> bool:
        return self.conv is not None or super().square

    @property
    def uses_grid(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.conv is not None

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        """Features (B, H, N, M), float32 or wider, of queries or keys (B, H, N, K). `mask` says which tokens count in statistics."""
        raise NotImplementedError

    def phi_macs(self, n: int) -> int:
        """Multiply-adds of phi for the n tokens of one image and head."""
        return 0

    def native_map(self) -> native.FeatureMap | None:
        """phi as compiled code knows it, for feature maps that it knows."""
        return None

    @property
    def width(self) -> int:
        """M, the number of features that phi returns."""
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        known = self.native_map() if mask is None and not self.causal else None
        out = None if known is None else native.linear_attention(q, k, v, known)
        if out is None:
            out = ops.recompute(self, "attend", mask, q, k, v, beside=("conv.", "look."))
        return out if self.conv is None else self.conv(out, v, mask, grid)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        phi_k = self.key_features(k, mask)
        linear = ops.causal_linear_attention if self.causal else ops.linear_attention
        return linear(self.phi(ops.wide(q), False, mask), phi_k, v.to(phi_k.dtype), self.eps, self.floor).to(v.dtype)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        weights = self._weights(q, k, mask)
        out = (weights @ v.to(weights.dtype)).to(v.dtype)
        return out if self.conv is None else self.conv.reference(out, v, mask, grid)

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._weights(q, k, mask).to(torch.promote_types(q.dtype, torch.float32))

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        return ops.linear_weights(self.phi(ops.wide(q), False, mask), self.key_features(k, mask), self.causal, self.eps, self.floor)

    def key_features(self, k: Tensor, mask: Tensor | None) -> Tensor:
        features = self.phi(ops.wide(k), True, mask)
        return features if mask is None else features.masked_fill(~mask[:, None, :, None], 0.0)

    def macs(self, n: int) -> int:
        heads, k = self.shape.num_heads, self.shape.head_dim
        window = (self.config.conv or 0) ** 2  # for all n tokens, as if none were a class token
        local = n * (self.shape.value_dim or k) * window
        return heads * (2 * self.phi_macs(n) + ops.linear_attention_macs(n, self.width, k, self.causal) + local)
