"""Polynomial features: 1, x and the products of its parts, so that weights are 1 + s + s^2/2 of the scores s, which is never negative.

The second-order expansion of softmax attention (arXiv:2402.18668). It has 1 + K + K^2 features, no randomness and no weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vixformer.attention.kernels.base import Kernel


class Taylor(Kernel, name="taylor"):
    projects = "never"

    class Config(Kernel.Config):
        def check(self, performer: Any) -> None:
            if performer.features not in ("auto", None):
                raise ValueError("kernel=taylor has as many features as the head width makes: leave features out")

    def __init__(self, config: Any, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.width = 1 + head_dim + head_dim**2

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        products = (u.unsqueeze(-1) * u.unsqueeze(-2)).flatten(-2) * 0.5**0.5
        return torch.cat([torch.ones_like(u[..., :1]), u, products], -1)
