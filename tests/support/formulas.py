"""Cores, inputs and weights, to compare with formulas that are written out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vixformer.attention.base import Shape
from vixformer.attention.layout import parse

HEADS, K, N = 2, 8, 5


def core(expression: str) -> Any:
    (config,) = parse(expression).expand(1)
    torch.manual_seed(3)
    built = config.owner(config, Shape(HEADS * K, HEADS, K))
    for p in built.parameters():  # nothing hides behind a start at zero or one
        if p.numel() > 1:
            torch.nn.init.normal_(p, std=0.5)
    return built


def tokens() -> Tensor:
    return torch.randn(2, HEADS, N, K, generator=torch.Generator().manual_seed(1))


def weights_of(phi_q: Tensor, phi_k: Tensor) -> Tensor:
    scores = phi_q @ phi_k.mT
    return scores / scores.sum(-1, keepdim=True)
