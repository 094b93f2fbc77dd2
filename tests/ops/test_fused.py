"""Linear attention by a kernel equals its reference."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.support.attentions import build, core_of, distance, slow_unless
from tests.support.kernels import KERNELS, MAPS, calls, compiler


@compiler
@pytest.mark.parametrize(
    ("features", "n"),
    [
        slow_unless(n == 97 or features == 110, features, n)  # the ends of a block of tokens and of a block of features
        for features, n in itertools.product([1, 16, 24, 64, 110], [1, 17, 95, 96, 97, 197, 800])
    ],
)
@pytest.mark.parametrize("kernel", KERNELS)
@torch.no_grad()
def test_linear_attention_equals_the_reference(features: int, n: int, kernel: str) -> None:
    core = core_of(build(f"performer(kernel={kernel}, features={features})", n, dim=64, heads=2))
    q, k, v = (1.5 * torch.randn(3, 2, n, 32) for _ in range(3))
    k[1] *= 4  # the largest key is not in the first block, and one image is unlike the others
    k[:, :, n // 2] *= 2
    with calls() as called:
        out = core(q, k, v)
    assert called == ["linear_attention"]
    # One feature may be what is left of 32 products that cancel: the order of the sum, which is the machine's, shows.
    assert distance(out, core.reference(q, k, v)) <= (1e-4 if features == 1 else 1e-5)


@compiler
@pytest.mark.parametrize("n", [1, 17, 97, 200])
@pytest.mark.parametrize(
    ("features", "kernel"),
    [*itertools.product([1, 24, 64], KERNELS), *itertools.product(["none"], ["relu", "exp", "exp, eps=0"])],
)
def test_the_gradients_of_linear_attention_are_those_of_the_reference(n: int, features: int | str, kernel: str) -> None:
    core = core_of(build(f"performer(kernel={kernel}, features={features})", n, dim=64, heads=2))
    q, k, v = (torch.randn(2, 2, n, 32) for _ in range(3))
    k[1] *= 3
    grad = torch.randn(2, 2, n, 32)
    single = [t.clone().requires_grad_() for t in (q, k, v)]
    out = core(*single)
    assert type(out.grad_fn).__name__ == "_LinearAttentionBackward"
    found = torch.autograd.grad(out, single, grad)
    inputs = q, k, v = [t.double().requires_grad_() for t in (q, k, v)]
    reference = core.reference(q, k, v)
    assert distance(out, reference) <= 1e-5
    expected = torch.autograd.grad(reference, inputs, grad.double())
    for ours, right in zip(found, expected, strict=True):
        assert distance(ours, right) <= 1e-4  # one feature that is mostly eps: float32 has no more


@compiler
@pytest.mark.parametrize("n", [1, 17, 96, 97, 200])
@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("end", ["softplus", "relu"])
def test_features_that_are_learned_and_their_gradients(n: int, heads: int, end: str) -> None:
    core = core_of(build(f"prism(end={end}, conv=none)", n, dim=64, heads=heads))
    inputs = [*(1.5 * torch.randn(3, heads, n, 64 // heads) for _ in range(3)), *core.parameters()]
    inputs = [t.requires_grad_() for t in inputs]
    out = core(*inputs[:3])
    assert type(out.grad_fn).__name__ == "_LinearAttentionBackward"
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, inputs, grad)
    right = core.reference(*(t.double() for t in inputs[:3]))
    assert distance(out, right) <= 1e-5
    for ours, expected in zip(found, torch.autograd.grad(right, inputs, grad.double()), strict=True):
        assert distance(ours, expected) <= 2e-5
    with torch.no_grad():
        assert distance(core(*inputs[:3]), right) <= 1e-5


@compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [17, 300])
@pytest.mark.parametrize(
    "word",
    [
        *MAPS,
        "performer(kernel=relu, features=24)",
        "performer(features=24)",
        "performer(features=24, eps=0)",
        "prism(conv=none)",
    ],
)
def test_masked_keys_and_their_gradients(word: str, n: int, dtype: torch.dtype) -> None:
    core: Any = core_of(build(word, n, dim=64, heads=2))
    mask = torch.rand(4, n) < 0.6
    # all, none, and the first block without any
    mask[0], mask[1], mask[2, : n // 2], mask[2, n // 2 :] = True, False, False, True
    inputs = [torch.randn(4, 2, n, 32).to(dtype).requires_grad_() for _ in range(3)]
    wanted = [*inputs, *core.parameters()]
    with calls() as called:
        out = core(*inputs, mask=mask)
        grad = torch.randn_like(out)
        found = torch.autograd.grad(out, wanted, grad)
    assert called == ["linear_attention", "linear_attention_backward"]
    wide = [t.double().detach().requires_grad_() for t in inputs]
    right = core.reference(*wide, mask=mask)
    expected = torch.autograd.grad(right, [*wide, *core.parameters()], grad.double())
    for ours, exact in zip((out, *found), (right, *expected), strict=True):
        assert ours.isfinite().all()
        assert distance(ours, exact) <= (1e-4 if dtype is torch.float32 else 4e-2)
    assert not any(t.transpose(1, 2)[~mask].any() for t in found[1:3])


@compiler
def test_tensors_that_need_no_gradient_while_autograd_is_on() -> None:
    core = core_of(build("performer(kernel=relu)", 17, dim=64, heads=2)).requires_grad_(False)
    q, k, v = (torch.randn(2, 2, 17, 32) for _ in range(3))
    with calls() as called:
        out = core(q, k, v)
    assert called == ["linear_attention"]
    assert not out.requires_grad
    assert distance(out, core.reference(q, k, v)) <= 1e-5
