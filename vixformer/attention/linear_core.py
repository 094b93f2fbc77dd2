"""Linear attention: one op, many feature maps. A subclass says what phi is."""
# B images  N tokens  H heads  K head width  M features

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vixformer import ops
from vixformer.attention.base import Core, Shape
from vixformer.attention.local import Local, LocalConfig
from vixformer.ops import Grid


class LinearCore(Core):
    """phi(q) (phi(k)' v) / (phi(q) . sum phi(k)), in float32, keeping q, k and v for backward and no feature."""

    @dataclass(frozen=True, kw_only=True)
    class Config(LocalConfig):
        pass

    config: Config
    eps: float = 0.0
    """Added to the normalizer."""
    floor: float | None = None
    """The least size of the normalizer, for feature maps that may be negative."""

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        self.causal = config.causal
        self.conv = None if config.conv is None else self.make_conv(config.conv)
        self.uses_grid = self.conv is not None

    def make_conv(self, side: int) -> Local:
        return Local(self.shape.num_heads * self.shape.values, side)

    def imitate(self) -> None:
        if self.conv is not None:
            self.conv.imitate()

    @property
    def square(self) -> bool:
        return self.config.square

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        """Features (B, H, N, M), float32 or wider, of queries or keys (B, H, N, K). `mask` says which tokens count in
        statistics."""
        raise NotImplementedError

    def phi_macs(self, n: int) -> int:
        """Multiply-adds of phi for the n tokens of one image and head."""
        return 0

    def feature_map(self) -> ops.FeatureMap | None:
        """phi as an operation describes it, for feature maps that there is a description of."""
        return None

    @property
    def width(self) -> int:
        """M, the number of features that phi returns."""
        raise NotImplementedError

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        out = self.mix(q, k, v, mask)
        return out if self.conv is None else self.conv(out, v, mask, grid)

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        known = None if self.causal else self.feature_map()
        if known is not None:
            return ops.linear_attention(q, k, v, known, self.eps, mask)
        return ops.recompute(self, "attend", mask, q, k, v, beside=("conv.", "look."))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        phi_k = self.key_features(k, mask)
        phi_q = self.phi(ops.wide(q), False, mask)
        return ops.feature_attention(phi_q, phi_k, v.to(phi_k.dtype), self.eps, self.floor, self.causal).to(v.dtype)

    def reference(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
    ) -> Tensor:
        weights = self._weights(q, k, mask)
        out = (weights @ v.to(weights.dtype)).to(v.dtype)
        return out if self.conv is None else self.conv.reference(out, v, mask, grid)

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._weights(q, k, mask).to(torch.promote_types(q.dtype, torch.float32))

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        return ops.linear_weights(
            self.phi(ops.wide(q), False, mask), self.key_features(k, mask), self.causal, self.eps, self.floor
        )

    def key_features(self, k: Tensor, mask: Tensor | None) -> Tensor:
        features = self.phi(ops.wide(k), True, mask)
        return features if mask is None else features.masked_fill(~mask[:, None, :, None], 0.0)

    def macs(self, n: int) -> int:
        heads, k = self.shape.num_heads, self.shape.head_dim
        return heads * (
            2 * self.phi_macs(n) + ops.linear_attention_macs(n, self.width, k, self.causal)
        ) + self.local_macs(n)

    def local_macs(self, n: int) -> int:
        return 0 if self.conv is None else self.conv.macs(n, self.shape)
