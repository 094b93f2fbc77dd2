"""Lens against its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.attentions import distance
from tests.support.formulas import HEADS, K, core, tokens, weights_of
from vixformer import create_attention


@torch.no_grad()
@pytest.mark.parametrize("power", [1, 2])
def test_lens(power: int) -> None:
    c = core(f"lens(power={power})")
    q, k, v = torch.randn(3, 2, HEADS, 1 + 6, K)
    features = ((x.clamp(min=0) + 1e-3) ** power for x in (q, k))
    assert distance(c.attention_map(q, k), weights_of(*features)) <= 1e-5
    image = v[:, :, 1:].transpose(2, 3).reshape(2, HEADS * K, 2, 3)
    expected = F.conv2d(image, c.conv.weight, padding=1, groups=HEADS * K).reshape(2, HEADS, K, 6).transpose(2, 3)
    local = c(q, k, v, grid=(2, 3)) - c(q, k, v)
    assert distance(local[:, :, 1:], expected) <= 1e-5
    assert not local[:, :, 0].any()


@torch.no_grad()
def test_lens_looks_at_neighbors_before_its_features() -> None:
    q, k, v = torch.randn(3, 2, HEADS, 1 + 6, K)
    plain = core("lens(conv=none)")
    for look, groups in (("conv", HEADS * K), ("graph", 1)):
        c = core(f"lens(conv=none, look={look})")
        assert len(c.look.weight) == groups
        weight = c.look.weight.expand(HEADS * K, 1, 3, 3)
        seen = []
        for x in (q, k):
            image = x[:, :, 1:].transpose(2, 3).reshape(2, HEADS * K, 2, 3)
            near = F.conv2d(image, weight, padding=1, groups=HEADS * K).reshape(2, HEADS, K, 6).transpose(2, 3)
            seen.append(torch.cat([x[:, :, :1], x[:, :, 1:] + near], 2))
        assert distance(c(q, k, v, grid=(2, 3)), plain(*seen, v)) <= 1e-5
        c.imitate()
        assert distance(c(q, k, v, grid=(2, 3)), plain(q, k, v)) <= 1e-6


@torch.no_grad()
def test_the_map_of_lens_shows_what_its_features_saw() -> None:
    """With values that say which token they are, what comes out is the map."""
    attention: Any = create_attention("lens(conv=none, look=conv)", dim=HEADS * K, num_heads=HEADS, num_tokens=K)
    x, grid = torch.randn(2, K, HEADS * K), (2, K // 2)
    q, k, _ = attention.heads(x, grid=grid)
    names = torch.eye(K).expand(2, HEADS, K, K)
    assert distance(attention.attention_map(x, grid=grid), attention.core(q, k, names, grid=grid)) <= 1e-5
    assert distance(attention.attention_map(x), attention.core(q, k, names, grid=grid)) > 1e-2


@torch.no_grad()
def test_lens_with_keys_of_one_length() -> None:
    q, k = tokens(), tokens().flip(2)
    features = (F.normalize(x, dim=-1) * K**0.5 for x in (q, k))
    assert (
        distance(core("lens(norm=true)").attention_map(q, k), weights_of(*(x.clamp(min=0) + 1e-3 for x in features)))
        <= 1e-5
    )


@torch.no_grad()
def test_lens_that_learns_its_features() -> None:
    q, k = tokens(), tokens().flip(2)
    c = core("lens(learn=power, power=2)")
    c.log_power.zero_()  # as it is at first
    assert distance(c.attention_map(q, k), core("lens(power=2)").attention_map(q, k)) <= 1e-5
    c.log_power.copy_(torch.linspace(-0.5, 0.5, HEADS).view(HEADS, 1, 1))
    powers = 2 * torch.linspace(-0.5, 0.5, HEADS).exp().view(HEADS, 1, 1)
    assert distance(c.attention_map(q, k), weights_of(*((x.clamp(min=0) + 1e-3) ** powers for x in (q, k)))) <= 1e-5
    c = core("lens(learn=gate)")
    c.gate.normal_()
    slope, shift = c.gate
    features = (x.clamp(min=0) * torch.sigmoid(slope * x + shift) + 1e-3 for x in (q, k))
    assert distance(c.attention_map(q, k), weights_of(*features)) <= 1e-5
