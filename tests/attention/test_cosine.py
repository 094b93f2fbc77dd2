"""Cosine attention against its formula."""

from __future__ import annotations

import math

import torch

from tests.support.attentions import distance
from tests.support.formulas import N, core, tokens


@torch.no_grad()
def test_cosine() -> None:
    """Products are relu(q) . relu(k) cos(pi (i - j) / 2N)."""
    c = core("cosine")
    q, k = tokens(), tokens().flip(2)
    i = torch.arange(N)
    scores = ((q.clamp(min=0) + 1e-6) @ (k.clamp(min=0) + 1e-6).mT) * torch.cos(math.pi * (i[:, None] - i) / (2 * N))
    assert distance(c.attention_map(q, k), scores / scores.sum(-1, keepdim=True)) <= 1e-5
