"""Hedgehog against its formula."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.attentions import distance
from tests.support.formulas import HEADS, K, core, tokens, weights_of
from vixformer.attention.base import Shape
from vixformer.attention.layout import parse


@torch.no_grad()
def test_hedgehog() -> None:
    c = core("hedgehog")
    q, k = tokens(), tokens().flip(2)
    phi = []
    for x, w in ((q, c.weight_q), (k, c.weight_k)):
        u = torch.einsum("hij,bhnj->bhni", w, x)
        e = torch.cat([u, -u], -1).exp()
        phi.append(e / e.sum(-1, keepdim=True))
    assert distance(c.attention_map(q, k), weights_of(*phi)) <= 1e-5
    (config,) = parse("hedgehog").expand(1)
    fresh: Any = config.owner(config, Shape(HEADS * K, HEADS, K))
    assert torch.equal(fresh.weight_q, torch.eye(K).expand(HEADS, K, K))
