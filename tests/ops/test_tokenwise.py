"""GELU and layer norm by a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.attentions import distance
from tests.support.kernels import compiler
from vixformer import ops
from vixformer.ops import native, tokenwise

pytestmark = [compiler, pytest.mark.usefixtures("on_every_processor")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("gelu", [(67, 1001)]),
        ("gelu", [(2, 5, 4096 * 2)]),
        ("layer_norm", [(4100, 16), (16,), (16,)]),
        ("layer_norm", [(3, 200, 144), (144,), (144,)]),
    ],
)
def test_they_are_as_exact_as_torchs(name: str, shapes: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    """Output and gradients against float64."""
    given = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    exact = [t.detach().double().requires_grad_() for t in given]
    grad = torch.randn(shapes[0]).to(dtype)
    eps = [1e-5] if name == "layer_norm" else []
    ours: Any = getattr(ops, name)
    theirs: Any = F.gelu if name == "gelu" else lambda x, *rest: F.layer_norm(x, x.shape[-1:], *rest)
    made = []
    for function, inputs in ((ours, given), (theirs, given), (getattr(ops, f"{name}_slow"), exact)):
        before = native.calls()
        out = function(*inputs, *eps)
        made.append([out.detach(), *torch.autograd.grad(out, inputs, grad.to(out.dtype))])
        assert native.calls() - before == (2 if function is ours else 0)
    for a, b, c in zip(*made, strict=True):
        assert a.dtype is b.dtype
        assert distance(a, c) <= 1.3 * distance(b, c) + 1e-6


def test_layer_norm_of_tokens_far_from_zero() -> None:
    x, one = 1e4 + torch.randn(3000, 32), torch.ones(32)
    assert distance(ops.layer_norm(x, one, 0 * one, 1e-5), ops.layer_norm_slow(x.double(), one, 0 * one, 1e-5)) <= 1e-3


@pytest.mark.parametrize(
    ("x", "weights"),
    [
        (torch.randn(3000, 33), (torch.randn(33), torch.randn(33))),
        (torch.randn(30, 32), (torch.randn(32), torch.randn(32))),
        (torch.randn(3000, 32), (None, None)),
        (torch.randn(3000, 32).double(), (torch.randn(32).double(), torch.randn(32).double())),
    ],
    ids=["odd width", "little", "no weights", "float64"],
)
def test_torch_has_what_kernels_do_not_take(x: torch.Tensor, weights: tuple[Any, Any]) -> None:
    before = native.calls()
    assert torch.equal(ops.layer_norm(x, *weights, 1e-5), F.layer_norm(x, x.shape[-1:], *weights, 1e-5))
    assert torch.equal(ops.gelu(x[:20]), F.gelu(x[:20]))
    assert native.calls() == before
    assert x[:20].numel() < tokenwise.SMALL
