"""Exact attention by a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.attentions import distance
from tests.support.kernels import calls, compiler
from vixformer import ops
from vixformer.ops import native
from vixformer.ops.softmax import exact_attention


@compiler
@pytest.mark.parametrize("n", [1, 17, 96, 97, 385, 800])
@pytest.mark.parametrize("keys", [1, 7, 16, 50, 64, 128, 257])
def test_exact_attention_and_its_gradients(n: int, keys: int) -> None:
    q, k, v = (
        torch.randn(2, n, 3, 32).transpose(1, 2),
        2 * torch.randn(2, 3, keys, 32),
        torch.randn(2, keys, 3, 32).transpose(1, 2),
    )
    grad = torch.randn(2, 3, n, 32)
    ours, right = (
        [t.to(kind, copy=True).requires_grad_() for t in (q, k, v)] for kind in (torch.float32, torch.float64)
    )
    out, expected = exact_attention(*ours), F.scaled_dot_product_attention(right[0], right[1], right[2])
    assert out is not None
    assert distance(out, expected) <= 1e-5
    found, sought = torch.autograd.grad(out, ours, grad), torch.autograd.grad(expected, right, grad.double())
    for one, other in zip(found, sought, strict=True):
        assert distance(one, other) <= 2e-5
    with torch.no_grad():
        inference = exact_attention(q, k, v)
    assert inference is not None
    assert torch.equal(inference, out)


@compiler
@pytest.mark.parametrize("n", [1, 97, 300])
@pytest.mark.parametrize("keys", [2, 7, 129, 511])
@pytest.mark.parametrize("width", [16, 48])
def test_exact_attention_in_bfloat16_is_as_accurate_as_torchs(n: int, keys: int, width: int) -> None:
    shapes = (2, n, 3, width), (2, keys, 3, width), (2, keys, 3, width)
    q, k, v = (torch.randn(shape).transpose(1, 2).bfloat16() for shape in shapes)
    grad = torch.randn(2, 3, n, width).bfloat16()
    right = [t.double().requires_grad_() for t in (q, k, v)]
    exact = F.scaled_dot_product_attention(right[0], right[1], right[2])
    expected = [exact, *torch.autograd.grad(exact, right, grad.double())]

    def errors(attend: Any) -> list[float]:
        inputs = [t.clone().requires_grad_() for t in (q, k, v)]
        out = attend(*inputs)
        found = [out, *torch.autograd.grad(out, inputs, grad)]
        assert {t.dtype for t in found} == {torch.bfloat16}
        return [distance(one, other) for one, other in zip(found, expected, strict=True)]

    for ours, torchs in zip(errors(exact_attention), errors(F.scaled_dot_product_attention), strict=True):
        assert ours <= 1.25 * torchs + 2e-3


@compiler
@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_exact_attention_is_the_kernels_where_instructions_make_it_faster(dtype: torch.dtype) -> None:
    q, k, v = torch.randn(3, 1, 1, 700, 16, dtype=dtype)
    for instructions, used in {"avx512-bf16": True, "avx512": dtype is torch.float32, "avx2": False, "": False}.items():
        with calls() as called, pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "instructions", lambda found=instructions: found)
            out = ops.softmax_attention(q, k, v)
        assert called == ["exact"] * used
        assert distance(out, F.scaled_dot_product_attention(q.double(), k.double(), v.double())) <= (
            1e-2 if dtype is torch.bfloat16 else 1e-5
        )


@compiler
def test_exact_attention_of_large_scores_and_shared_keys() -> None:
    q = (40 * torch.randn(2, 4, 50, 16)).requires_grad_()
    kv = torch.randn(2, 1, 50, 16).requires_grad_()
    shared = kv.expand(2, 4, 50, 16)
    out, expected = exact_attention(q, shared, shared), F.scaled_dot_product_attention(q, shared, shared)
    assert out is not None
    assert distance(out, expected) <= 1e-5
    found, sought = (torch.autograd.grad(o.square().sum(), [q, kv]) for o in (out, expected))
    for one, other in zip(found, sought, strict=True):
        assert distance(one, other) <= 1e-4
    q.data[0, 0, 0, 0] = torch.nan
    assert exact_attention(q, shared, shared)[0, 0, 0].isnan().all()  # pyright: ignore
