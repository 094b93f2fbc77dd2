"""Linear layers by a kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.attentions import distance
from tests.support.kernels import compiler
from tests.support.operations import learned
from vixformer import ops
from vixformer.ops import native
from vixformer.ops.affine import Affine

pytestmark = [compiler, pytest.mark.usefixtures("on_every_processor")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(130, 16, 400), (1, 528, 1024), (97, 272, 48), (600, 80, 32)])
def test_a_linear_layer_is_as_exact_as_torchs(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """Output and gradients against float64, of every size of panel and block."""
    m, k, n = shape
    given = [t.to(dtype).requires_grad_() for t in (torch.randn(m, k), torch.randn(n, k), torch.randn(n))]
    grad = torch.randn(m, n).to(dtype)
    exact = [t.detach().double().requires_grad_() for t in given]
    right = _out_and_gradients(ops.linear_slow, exact, grad.double())
    before = native.calls()
    ours, theirs = _out_and_gradients(ops.linear, given, grad), _out_and_gradients(F.linear, given, grad)
    assert native.calls() == before + 3
    for a, b, c in zip(ours, theirs, right, strict=True):
        assert distance(a, c) <= 1.3 * distance(b, c) + 1e-6


def _out_and_gradients(function: Callable[..., Tensor], given: list[Tensor], grad: Tensor) -> list[Tensor]:
    out = function(*given)
    return [out.detach(), *torch.autograd.grad(out, given, grad)]


def test_a_linear_layer_under_autocast_keeps_its_weights_and_their_gradients_wide() -> None:
    x, weight, bias = learned(70, 96), learned(80, 96), learned(80)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = native.calls()
        out, right = ops.linear(x, weight, bias), F.linear(x, weight, bias)
    assert native.calls() == before + 1
    assert out.dtype is right.dtype is torch.bfloat16
    assert distance(out, right) <= 1e-2
    found = torch.autograd.grad(out.float().square().sum(), (x, weight, bias))
    assert [t.dtype for t in found] == [torch.float32] * 3
    exact = torch.autograd.grad(F.linear(x, weight, bias).square().sum(), (x, weight, bias))
    assert all(distance(a, b) <= 1e-2 for a, b in zip(found, exact, strict=True))
    with torch.autocast("cpu", dtype=torch.float16):
        assert ops.linear(x, weight, bias).dtype is torch.float16


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        (torch.randn(900, 33), torch.randn(48, 33)),
        (torch.randn(900, 32), torch.randn(10, 32)),
        (torch.randn(900, 32).double(), torch.randn(64, 32).double()),
        (torch.randn(32), torch.randn(64, 32)),
        (torch.randn(0, 32), torch.randn(64, 32)),
        (torch.randn(4, 32), torch.randn(64, 32)),
    ],
    ids=["odd width", "classes", "float64", "a vector", "nothing", "little"],
)
def test_torch_has_the_linear_layers_that_kernels_do_not_take(x: Tensor, weight: Tensor) -> None:
    before = native.calls()
    assert torch.equal(ops.linear(x, weight), F.linear(x, weight))
    assert native.calls() == before
    with pytest.raises(RuntimeError):
        ops.linear(x, torch.randn(64, 31))


def test_torch_has_wide_linear_layers_in_bfloat16() -> None:
    x, weight = torch.randn(2, 1024), torch.randn(1024, 1024)
    before = native.calls()
    assert torch.equal(ops.linear(x.bfloat16(), weight.bfloat16()), F.linear(x.bfloat16(), weight.bfloat16()))
    assert native.calls() == before
    ops.linear(x, weight)
    assert native.calls() == before + 1


def test_kernels_of_nothing_fill_gradients_with_zeros() -> None:
    x, weight = torch.randn(0, 32), torch.randn(64, 32)
    assert Affine.op(x, weight, None).shape == (0, 64)
    dx, dw = Affine.backward_op(x, weight, torch.randn(0, 64))
    assert dx.shape == x.shape
    assert torch.equal(dw, torch.zeros(64, 32))


@pytest.mark.parametrize("half", [False, True])
def test_a_compiled_linear_layer_runs_the_same_kernels(half: bool) -> None:
    """In one graph, under autocast too."""
    torch.compiler.reset()
    given = learned(2, 70, 64), learned(96, 64), learned(96)
    compiled = torch.compile(ops.linear, backend="aot_eager", fullgraph=True)
    results = []
    for function in (ops.linear, compiled):
        before = native.calls()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            out = function(*given)
        results.append([out, *torch.autograd.grad(out.float().square().sum(), given)])
        assert native.calls() == before + 3
    assert results[0][0].dtype is (torch.bfloat16 if half else torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_do_not_depend_on_the_number_of_threads(dtype: torch.dtype) -> None:
    given = [t.to(dtype).requires_grad_() for t in (torch.randn(1100, 80), torch.randn(112, 80), torch.randn(112))]
    grad, threads = torch.randn(1100, 112).to(dtype), torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(_out_and_gradients(ops.linear, given, grad)[:3])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))
