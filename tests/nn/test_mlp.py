"""The MLP of a block makes its widest tensor again in backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from vixformer.measure.cost import bytes_kept
from vixformer.nn import mlp
from vixformer.nn.activations import Activation
from vixformer.nn.mlp import MLP

X = torch.randn(2, 33, 16, generator=torch.Generator().manual_seed(0))


def grads(module: MLP, loss: Callable[[Tensor], Tensor]) -> list[Tensor]:
    x = X.clone().requires_grad_()
    return list(torch.autograd.grad(loss(module(x)), [x, *module.parameters()]))


@pytest.mark.parametrize("act", Activation.members)
@pytest.mark.parametrize("normed", [False, True])
def test_gradients_are_those_of_keeping_everything(act: str, normed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = MLP(16, 64, act, normed=normed)
    wanted = grads(module, lambda y: y.square().sum())
    monkeypatch.setattr(mlp, "LARGE", 0)
    for found, want in zip(grads(module, lambda y: y.square().sum()), wanted, strict=True):
        assert torch.equal(found, want)
    with torch.autocast("cpu", torch.bfloat16):
        assert all(g.isfinite().all() for g in grads(module, lambda y: y.float().square().sum()))


def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "LARGE", 0)
    module = MLP(4, 8).double()
    torch.autograd.gradgradcheck(module, X[:1, :2, :4].double().requires_grad_())


@pytest.mark.parametrize("act", ["gelu", "silu", "elu", "hardswish"])
def test_a_large_hidden_layer_is_kept_once(act: str) -> None:
    module, x = MLP(16, 64, act), torch.randn(2, mlp.LARGE // 64, 16, requires_grad=True)
    hidden = 4 * 2 * mlp.LARGE
    assert hidden <= bytes_kept(module, x) < 1.1 * hidden
    assert bytes_kept(module, x[:, 1:].contiguous()) > 1.8 * hidden  # small ones are kept whole: they are cheap to hold
