"""The convolution of v by a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.attentions import build, core_of, distance
from tests.support.kernels import calls, compiler
from vixformer import ops


@compiler
@pytest.mark.parametrize("grid", [(1, 3), (2, 9), (5, 7), (9, 8)])
@pytest.mark.parametrize("front", [0, 1, 3])
@pytest.mark.parametrize("side", [1, 3, 5])
def test_the_convolution_of_v_and_its_gradients(grid: tuple[int, int], front: int, side: int) -> None:
    core = core_of(build(f"lens(conv={side})", front + grid[0] * grid[1], dim=64, heads=2))
    out, v = (torch.randn(3, 2, front + grid[0] * grid[1], 32).requires_grad_() for _ in range(2))
    weight = core.conv.weight  # pyright: ignore
    with calls() as called:
        ours = ops.add_convolution(out, v, weight, None, grid)  # pyright: ignore
    assert called == ["local"]
    right = core.conv.reference(out.double(), v.double(), None, grid)  # pyright: ignore
    assert distance(ours, right) <= 1e-5
    grad = torch.randn_like(ours)
    assert isinstance(weight, Tensor)
    found = torch.autograd.grad(ours, [out, v, weight], grad)
    expected = torch.autograd.grad(right, [out, v, weight], grad.double())
    for one, other in zip(found, expected, strict=True):
        assert distance(one, other) <= 1e-5


@compiler
@pytest.mark.parametrize("front", [0, 2])
def test_a_convolution_with_a_bias_that_heads_share(front: int) -> None:
    core: Any = core_of(build("focused", front + 35, dim=64, heads=2))
    inputs = [*(torch.randn(3, 2, front + 35, 32).requires_grad_() for _ in range(2)), *core.conv.parameters()]
    with calls() as called:
        out = core.conv(*inputs[:2], None, (5, 7))
    assert called == ["local"]
    right = core.conv.reference(*(t.double() for t in inputs[:2]), None, (5, 7))
    assert distance(out, right) <= 1e-5
    grad = torch.randn_like(out)
    for ours, expected in zip(
        torch.autograd.grad(out, inputs, grad), torch.autograd.grad(right, inputs, grad.double()), strict=True
    ):
        assert distance(ours, expected) <= 1e-5
