"""exp(u) + eps, kept in range by subtracting the largest u, or by clamping u to fixed or dynamic bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from vixformer import ops
from vixformer.attention.kernels.kernel import Asked, PositiveKernel


class Exp(PositiveKernel, name="exp"):
    """`clamp=10` clamps u to [-10, 10], `clamp_min` sets another lower bound, `clamp=dynamic` clamps to three standard
    deviations around the mean u of each image and head: the bounds follow the data, and no image depends on the others
    of its batch.
    """

    one_each = True
    form = ops.ExpMap

    @dataclass(frozen=True, kw_only=True)
    class Config(PositiveKernel.Config):
        clamp: PositiveFloat | Literal["dynamic"] | None = None
        clamp_min: float | None = None

        def __post_init__(self) -> None:
            if self.clamp_min is not None and (not isinstance(self.clamp, float | int) or self.clamp_min >= self.clamp):
                raise ValueError("clamp_min goes with a clamp that is a larger number, such as clamp=10, clamp_min=-5")
            if isinstance(self.clamp, float | int) and self.clamp > 40:
                raise ValueError(
                    "clamp must be at most 40, because products of two exponentials leave float32 there, not"
                    f" {self.clamp}"
                )

        def check(self, performer: Asked) -> None:
            if self.clamp is None:
                self.refuse_eps(performer)
            if self.clamp == "dynamic" and performer.causal:
                raise ValueError(
                    "clamp=dynamic looks at all the tokens of an image, so it does not go with causal=true"
                )

    config: Config

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        clamp, eps = self.config.clamp, self.config.eps
        if clamp is None:
            return ops.stable_exp(u, None, eps, keys, mask, self.causal)
        if clamp == "dynamic":
            low, high = _three_sigma(u.detach(), mask)
            u = torch.minimum(torch.maximum(u, low), high)
            # without eps a query's own largest cancels in the division, and keeps it from vanishing
            return torch.exp(u - (high if keys or eps else u.detach().amax(-1, keepdim=True))) + eps
        low = -clamp if self.config.clamp_min is None else self.config.clamp_min
        return torch.exp(u.clamp(low, clamp)) + eps

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        return super().feature_map(directions, scale) if self.config.clamp is None else None


def _three_sigma(u: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Bounds over the tokens that a mask keeps: of as many queries as keys, those of the mask, and else all queries."""
    weight = (
        torch.ones_like(u[..., :1])
        if mask is None or mask.shape[1] != u.shape[2]
        else mask[:, None, :, None].to(u.dtype)
    )
    count = (weight.sum((-1, -2), keepdim=True) * u.shape[-1]).clamp(min=1.0)
    mean = (u * weight).sum((-1, -2), keepdim=True) / count
    spread = (((u - mean) ** 2 * weight).sum((-1, -2), keepdim=True) / count).sqrt()
    return mean - 3 * spread, mean + 3 * spread
