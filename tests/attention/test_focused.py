"""Focused linear attention against its formula."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.attentions import distance
from tests.support.formulas import HEADS, K, core, tokens, weights_of


@torch.no_grad()
@pytest.mark.parametrize("power", [3, 2])
def test_focused(power: int) -> None:
    c = core(f"focused(power={power})")

    def phi(x: Tensor) -> Tensor:
        y = (x.clamp(min=0) + 1e-6) / torch.log1p(torch.exp(c.scale))
        return y**power / (y**power).norm(dim=-1, keepdim=True) * y.norm(dim=-1, keepdim=True)

    q, k = tokens(), tokens().flip(2)
    assert distance(c.attention_map(q, k), weights_of(phi(q), phi(k))) <= 1e-5
    v = torch.randn(2, HEADS, 1 + 6, K)
    q = k = torch.randn(2, HEADS, 7, K)
    local = c(q, k, v, grid=(2, 3)) - c(q, k, v)
    expected = F.conv2d(
        v[:, :, 1:].reshape(-1, 2, 3, K).permute(0, 3, 1, 2), c.conv.weight, c.conv.bias, padding=2, groups=K
    )
    assert distance(local[:, :, 1:], expected.permute(0, 2, 3, 1).reshape(2, HEADS, 6, K)) <= 1e-5
    assert not local[:, :, 0].any()
