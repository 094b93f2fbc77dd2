"""Polynomial features: 1, x and the products of its parts, so that weights are 1 + s + s^2/2 of the scores s, which is
never negative.

The second-order expansion of softmax attention (arXiv:2402.18668). It has 1 + K + K (K + 1) / 2 features, no randomness
and no weights.
"""

from __future__ import annotations

from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.kernel import Asked, Kernel


class Taylor(Kernel, name="taylor"):
    projects = "never"

    class Config(Kernel.Config):
        def check(self, performer: Asked) -> None:
            if performer.features not in ("auto", None):
                raise ValueError("kernel=taylor has as many features as the head width makes: leave features out")

    config: Config

    def __init__(self, config: Kernel.Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.width = ops.TaylorMap.features(head_dim)

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        return ops.TaylorMap()(u, keys)

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        return ops.TaylorMap(scale=scale)
