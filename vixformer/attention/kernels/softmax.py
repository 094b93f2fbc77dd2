"""Positive random features of the softmax kernel, exp(u - |x|^2 / 2): FAVOR+ (arXiv:2009.14794)."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import NonNegativeFloat
from torch import Tensor

from vixformer.attention import ops
from vixformer.attention.kernels.base import PositiveKernel


class SoftmaxKernel(PositiveKernel, name="softmax"):
    projects = "always"
    uses_norm = True
    half: float = 0.5
    """What |x|^2 is multiplied by."""

    @dataclass(frozen=True, kw_only=True)
    class Config(PositiveKernel.Config):
        eps: NonNegativeFloat = 1e-4

    @property
    def eps(self) -> float:
        # eps is measured against the largest feature of the image, so under a causal mask it would tell the past about the future.
        return 0.0 if self.causal else self.config.eps

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        assert square is not None
        return ops.stable_exp(u, square * self.half, self.eps, keys, mask)
