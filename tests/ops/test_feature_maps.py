"""Feature maps by a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.attentions import build, core_of, distance
from tests.support.kernels import MAPS, calls, compiler


@compiler
@pytest.mark.parametrize("n", [1, 17, 97, 600])
@pytest.mark.parametrize("word", MAPS)
def test_every_feature_map_of_a_kernel_and_its_gradients(word: str, n: int) -> None:
    core: Any = core_of(build(word, n, dim=64, heads=2))
    with torch.no_grad():
        for weight in core.parameters():
            weight.add_(0.5 * torch.randn_like(weight))
    inputs = [*(1.5 * torch.randn(3, 2, n, 32) for _ in range(3)), *core.parameters()]
    inputs = [t.requires_grad_() for t in inputs]
    with calls() as called:
        out = core(*inputs[:3])
        grad = torch.randn_like(out)
        found = torch.autograd.grad(out, inputs, grad)
    assert called == ["linear_attention", "linear_attention_backward"]
    right = core.reference(*(t.double() for t in inputs[:3]))
    assert distance(out, right) <= 1e-5
    for ours, expected in zip(found, torch.autograd.grad(right, inputs, grad.double()), strict=True):
        # of one token, the gradient of q and k is rounding alone
        assert distance(ours, expected) <= (1e-4 if n > 1 else 1e-2)


@compiler
def test_features_of_hedgehog_that_are_too_small_have_no_slope() -> None:
    core: Any = core_of(build("hedgehog(conv=none)", 20, dim=32, heads=2))
    inputs = [(30 * torch.randn(2, 2, 20, 16)).requires_grad_() for _ in range(3)]
    out, right = core(*inputs), core.reference(*(t.double() for t in inputs))
    for ours, expected in zip(*(torch.autograd.grad(o.sum(), inputs) for o in (out, right)), strict=True):
        assert ours.isfinite().all()
        assert (ours - expected).abs().max() <= 1e-3 * expected.abs().max() + 1e-5


@compiler
@torch.no_grad()
@pytest.mark.parametrize("kernel", ["angular", "mixture", "exp, clamp=4", "gelu, raw=true"])
def test_features_that_no_kernel_makes_are_made_by_torch(kernel: str) -> None:
    core = core_of(build(f"performer(kernel={kernel}, features=16)", 20, dim=32, heads=2))
    assert core.feature_map() is None  # pyright: ignore
    with calls() as called:
        core(*torch.randn(3, 2, 2, 20, 16))
    assert called == ["feature_attention"]
