"""Nystrom attention by a kernel equals its reference."""

from __future__ import annotations

import pytest
import torch

from tests.support.attentions import build, core_of, distance
from tests.support.kernels import calls, compiler
from vixformer.ops import native


@compiler
@pytest.mark.parametrize("n", [17, 64, 65, 95, 96, 97, 197, 800])
@pytest.mark.parametrize("options", ["", ", conv=none", ", iterations=1", ", conv=3", ", conv=1, iterations=9"])
@pytest.mark.parametrize("landmarks", [16, 48])
@torch.no_grad()
def test_nystrom_equals_the_reference(n: int, options: str, landmarks: int) -> None:
    assert native.library() is not None
    core = core_of(build(f"nystrom(landmarks={landmarks}{options})", n, dim=64, heads=2))
    q, k, v = (1.5 * torch.randn(3, 2, n, 32) for _ in range(3))
    with calls() as called:
        assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5
    assert called == ["nystrom" if n > landmarks else "exact"]


@compiler
@pytest.mark.parametrize("n", [49, 97, 197])
@pytest.mark.parametrize("options", ["", ", conv=none", ", conv=1, iterations=1"])
@pytest.mark.parametrize("landmarks", [16, 48])
def test_the_gradients_of_nystrom_are_those_of_the_reference(n: int, options: str, landmarks: int) -> None:
    core = core_of(build(f"nystrom(landmarks={landmarks}{options})", n, dim=64, heads=2))
    wanted = [*(2 * torch.randn(3, 2, n, 32) for _ in range(3)), *core.parameters()]
    inputs = [t.requires_grad_() for t in wanted]
    out = core(*inputs[:3])
    assert type(out.grad_fn).__name__ == "_NystromAttentionBackward"
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, inputs, grad)
    right = torch.autograd.grad(core.reference(*(t.double() for t in inputs[:3])), inputs, grad.double())
    for ours, expected in zip(found, right, strict=True):
        assert distance(ours, expected) <= 1e-5
