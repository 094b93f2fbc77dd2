"""Prism against its formula, and how its features start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.attentions import distance
from tests.support.formulas import HEADS, K, core, tokens, weights_of
from vixformer import create_attention


@torch.no_grad()
@pytest.mark.parametrize(
    ("end", "positive"),
    [
        ("softplus", lambda y: torch.log1p(torch.exp(y))),
        ("relu", lambda y: y.clamp(min=0)),
        ("elu", lambda y: torch.where(y > 0, y + 1, torch.exp(y))),
    ],
)
def test_prism(end: str, positive: Callable[[Tensor], Tensor]) -> None:
    c = core(f"prism(end={end})")
    q, k = tokens(), tokens().flip(2)

    def phi(x: Tensor) -> Tensor:
        return positive(c.second(F.relu(F.linear(x * K**-0.25, c.first.weight, c.first.bias)))) + 1e-3

    assert distance(c.attention_map(q, k), weights_of(phi(q), phi(k))) <= 1e-5


@torch.no_grad()
def test_prism_begins_with_features_that_differ() -> None:
    spread = {}
    for start in ("plain", "orthogonal", "lens"):
        torch.manual_seed(0)
        a: Any = create_attention(f"prism(start={start})", dim=64, num_heads=4, num_tokens=16)
        features = a.core.phi(torch.randn(2, 4, 16, 16), False, None)
        spread[start] = float(features.std() / features.mean())
    assert spread["plain"] < 0.3
    assert min(spread["orthogonal"], spread["lens"]) > 1.0


@torch.no_grad()
def test_prism_begins_as_lens() -> None:
    def begun(expression: str) -> Tensor:
        attention: Any = create_attention(expression, dim=HEADS * K, num_heads=HEADS, num_tokens=5)
        return attention.core.attention_map(tokens(), tokens().flip(2))

    assert distance(begun("prism(end=relu)"), begun("lens")) <= 1e-5
    assert distance(begun("prism"), begun("lens")) < 0.5 * distance(begun("prism(start=plain)"), begun("lens"))
