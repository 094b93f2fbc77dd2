"""Linformer by a kernel equals its reference."""

from __future__ import annotations

import pytest
import torch

from tests.support.attentions import build, core_of, distance
from tests.support.kernels import compiler
from vixformer import ops


@compiler
@pytest.mark.parametrize("share", ["none", "headwise", "kv", "layerwise"])
@pytest.mark.parametrize("n", [5, 65, 97, 800])
@pytest.mark.parametrize("rank", [8, 48])
def test_linformer_and_its_gradients(share: str, n: int, rank: int) -> None:
    core = core_of(build(f"linformer(rank={rank}, share={share})", n + 3, dim=64, heads=2))
    inputs = [*(torch.randn(2, 2, n, 32).requires_grad_() for _ in range(3)), *core.parameters()]
    out, right = core(*inputs[:3]), core.reference(*(t.double() for t in inputs[:3]))
    assert type(out.grad_fn).__name__ == "_LinformerAttentionBackward"
    assert distance(out, right) <= 1e-5
    grad = torch.randn_like(out)
    for one, other in zip(
        torch.autograd.grad(out, inputs, grad), torch.autograd.grad(right, inputs, grad.double()), strict=True
    ):
        assert distance(one, other) <= 2e-5


def test_matrices_of_two_shapes_or_of_other_tokens_are_refused() -> None:
    q = torch.randn(2, 2, 20, 16)
    e = torch.randn(20, 8)
    for one, other in ((e, e[:, :7]), (e[:, :7], e), (e[:19], e[:19]), (e, e.expand(2, 20, 8))):
        with pytest.raises(ValueError, match="E and F must both be"):
            ops.linformer_attention(q, q, q, one, other)
    assert ops.linformer_attention(q, q, q, e, e).shape == q.shape
