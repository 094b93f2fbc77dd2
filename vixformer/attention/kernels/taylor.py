"""Polynomial features: 1, x and the products of its parts, so that weights are 1 + s + s^2/2 of the scores s, which is
never negative.

The second-order expansion of softmax attention (arXiv:2402.18668). It has 1 + K + K (K + 1) / 2 features, no randomness
and no weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
        self.width = 1 + head_dim + head_dim * (head_dim + 1) // 2

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        # tokens last, which are many, so that products of single parts are long rows
        x = u.transpose(-1, -2).contiguous()
        # a product of two parts comes twice in the square of a sum, so at one half it has the weight 1
        products = [x[..., i : i + 1, :] * x[..., i + 1 :, :] for i in range(x.shape[-2] - 1)]
        return torch.cat([torch.ones_like(x[..., :1, :]), x, x.square() * 0.5**0.5, *products], -2).transpose(-1, -2)
