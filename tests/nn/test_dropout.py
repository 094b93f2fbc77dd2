"""Dropout, which must be nn.Dropout in everything but where its random numbers come from."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vixformer.measure.cost import bytes_kept
from vixformer.nn.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.15, 0.5, 0.9])
def test_what_is_kept_is_scaled_and_as_often_as_it_should_be(p: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(500, 1001)
    y = Dropout(p)(x)
    zero = y == 0
    assert torch.allclose(y[~zero], x[~zero] / (1 - p))
    shares = [zero.flatten()[i::4].float().mean().item() for i in range(4)]  # each quarter of a word alike
    assert shares == pytest.approx([p] * 4, abs=5 * (p * (1 - p) / (x.numel() / 4)) ** 0.5)
    rows = zero.float().mean(1)
    assert rows.std().item() == pytest.approx((p * (1 - p) / 1001) ** 0.5, rel=0.15)  # drawn independently


def test_gradients_go_where_values_went() -> None:
    x = torch.randn(64, 65, requires_grad=True)
    y = Dropout(0.3)(x)
    y.backward(torch.ones_like(y))
    assert x.grad is not None
    assert torch.allclose(x.grad, y.detach() / x.detach(), rtol=1e-4)


def test_the_seed_decides_and_every_call_differs() -> None:
    x, drop = torch.ones(4096), Dropout(0.5)
    torch.manual_seed(1)
    first, second = drop(x), drop(x)
    torch.manual_seed(1)
    assert torch.equal(drop(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_precision_stays(dtype: torch.dtype) -> None:
    assert Dropout(0.5)(torch.ones(100, dtype=dtype)).dtype == dtype


def test_ends() -> None:
    x = torch.randn(100)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert not Dropout(1.0)(x).any()
    assert isinstance(Dropout(0.1), nn.Dropout)


def test_a_byte_a_number_is_kept() -> None:
    x = torch.randn(1000, requires_grad=True)
    assert bytes_kept(Dropout(0.5), x) == 1000
    assert bytes_kept(nn.Dropout(0.5), x) == 4000
