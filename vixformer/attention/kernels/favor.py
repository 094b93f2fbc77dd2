"""Positive random features of the softmax kernel, exp(u - |x|^2 / 2): FAVOR+ (arXiv:2009.14794)."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import NonNegativeFloat
from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.kernel import Asked, PositiveKernel


class SoftmaxKernel(PositiveKernel, name="softmax"):
    one_each = True
    form = ops.ExpMap
    estimates_softmax = True
    projects = "always"
    uses_norm = True
    norm_weight = 0.5

    @dataclass(frozen=True, kw_only=True)
    class Config(PositiveKernel.Config):
        eps: NonNegativeFloat = 1e-4

        def check(self, performer: Asked) -> None:
            self.refuse_eps(performer)

    config: Config

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        assert square is not None
        return ops.stable_exp(u, square * self.norm_weight, self.config.eps, keys, mask, self.causal)
