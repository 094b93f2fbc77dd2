"""What torch knows of operations that compiled kernels run, and everything that people do with such an operation."""

from __future__ import annotations

import copy
import math
import pickle
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.support.attentions import distance
from tests.support.operations import CALLS, N, directions, heads, leaf
from vixformer import ops
from vixformer.ops import native
from vixformer.ops.affine import Affine
from vixformer.ops.convolution import Convolution
from vixformer.ops.fourier import FourierMix
from vixformer.ops.operation import Operation
from vixformer.ops.softmax import ExactAttention
from vixformer.ops.tokenwise import Gelu, LayerNorm

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here"),
    pytest.mark.usefixtures("on_every_processor"),
]
WITHOUT_PRODUCTS = "rotation", "gelu ", "layer norm"
every = pytest.mark.parametrize("name", CALLS)


def tensors(args: tuple[Any, ...]) -> list[Tensor]:
    """Those that get gradients."""
    found = [t for x in args for t in (x.tensors() if hasattr(x, "tensors") else [x])]
    return [t for t in found if isinstance(t, Tensor) and t.requires_grad]


def passed(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[type[Operation], tuple[Any, ...]]:
    """What the function hands on to torch."""
    operation, function, arguments = CALLS[name]
    got: list[tuple[Any, ...]] = []
    with monkeypatch.context() as patch:
        plain = operation.call
        patch.setattr(operation, "call", lambda *args: (got.append(args), plain(*args))[1])
        function(*arguments())
    return operation, got[0]


def test_every_operation_is_tested() -> None:
    assert {operation for operation, _, _ in CALLS.values()} == set(Operation.__subclasses__())


@every
def test_torch_finds_nothing_wrong_with_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, args = passed(name, monkeypatch)
    torch.library.opcheck(operation.op, tuple(leaf(x) for x in args))
    if hasattr(operation, "backward"):
        args = tuple(leaf(x, trains=False) for x in args)
        made = operation.op(*args)
        kept = operation.kept(args, made)
        grad = torch.randn_like(made if isinstance(made, Tensor) else made[0])
        torch.library.opcheck(operation.backward_op, (*kept, grad))


@every
def test_it_is_what_torch_makes_without_it(name: str) -> None:
    _, function, arguments = CALLS[name]
    args = arguments()
    before = native.calls()
    out = function(*args)
    assert native.calls() > before
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, tensors(args), grad)
    before = native.calls()
    with ops.portable():
        right = function(*args)
        wanted = torch.autograd.grad(right, tensors(args), grad)
    assert native.calls() == before
    for ours, theirs in zip((out, *found), (right, *wanted), strict=True):
        assert distance(ours, theirs) <= (2e-2 if out.dtype is torch.bfloat16 else 2e-5)


@every
def test_the_way_through_torch_is_the_short_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit by bit: under a counter the same kernels run, called by torch."""
    _, function, arguments = CALLS[name]
    args = arguments()
    out = function(*args)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, tensors(args), grad)
    with FlopCounterMode(display=False) as counter:
        again = function(*args)
        forward = counter.get_total_flops()
        found_again = torch.autograd.grad(again, tensors(args), grad)
    assert all(torch.equal(a, b) for a, b in zip((out, *found), (again, *found_again), strict=True))
    without = name.startswith(WITHOUT_PRODUCTS)
    assert forward > 0 or without
    assert counter.get_total_flops() > forward or without


def counted(name: str, args: tuple[Any, ...]) -> tuple[int, int]:
    """Floating-point operations of the products forward and backward."""
    with FlopCounterMode(display=False) as counter:
        out = CALLS[name][1](*args)
        forward = counter.get_total_flops()
        torch.autograd.grad(out, tensors(args), torch.ones_like(out))
    return forward, counter.get_total_flops() - forward


@every
def test_its_products_are_those_of_torchs_operations(name: str) -> None:
    operation, _, arguments = CALLS[name]
    args = arguments()
    found = counted(name, args)
    with ops.portable(), sdpa_kernel(SDPBackend.MATH):
        forward, backward = counted(name, args)
    if operation is FourierMix:  # torch counts no transforms: 5 n log2 n operations, half of them for a real input
        forward = backward = round(2.5 * 2 * N * 6 * math.log2(N * 6))
    if operation is Convolution:  # torch counts the gradient of one group as if it were that of all
        backward = 2 * forward
    if getattr(args[-1], "directions", None) is directions or name == "masked":  # 24 of them are computed as 32
        forward, backward = forward * 4 // 3, backward * 4 // 3
    if name == "taylor":  # and 153 as 160
        forward, backward = forward * 160 // 153, backward * 160 // 153
    assert found[0] == forward
    assert 0.98 * backward <= found[1] <= 1.26 * backward  # some products of the forward pass are made again


@every
def test_gradients_of_gradients_are_right_or_refused(name: str) -> None:
    _, function, arguments = CALLS[name]
    args = arguments()

    def twice() -> tuple[Tensor, ...]:
        first = torch.autograd.grad(function(*args).square().sum(), tensors(args), create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), tensors(args))  # pyright: ignore

    with ops.portable(), sdpa_kernel(SDPBackend.MATH):
        right = twice()
    if hasattr(CALLS[name][0], "backward") and CALLS[name][0] not in (Affine, Gelu, LayerNorm):
        with pytest.raises(
            NotImplementedError, match=r"no second derivatives: compute them inside `with vixformer.ops.portable\(\), "
        ):
            twice()
    else:
        for ours, theirs in zip(twice(), right, strict=True):
            assert distance(ours, theirs) <= (3e-2 if ours.dtype is torch.bfloat16 else 1e-5)


@every
def test_activation_checkpointing_and_inference_mode(name: str) -> None:
    _, function, arguments = CALLS[name]
    args = arguments()
    out = function(*args)
    right = torch.autograd.grad(out.square().sum(), tensors(args))
    kept = checkpoint(function, *args, use_reentrant=False)
    assert isinstance(kept, Tensor)
    found = torch.autograd.grad(kept.square().sum(), tensors(args))
    assert all(torch.equal(a, b) for a, b in zip(found, right, strict=True))
    with torch.inference_mode():
        assert torch.equal(function(*args), out)


@pytest.mark.skipif(
    not hasattr(torch.library, "register_autocast"), reason="operations have autocast rules from torch 2.7 on"
)
@every
def test_autocast_does_not_make_it_less_precise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, args = passed(name, monkeypatch)
    args = tuple(leaf(x, trains=False) for x in args)
    lower = tuple(x.bfloat16() if isinstance(x, Tensor) else x for x in args)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = operation.op(*lower)
    wide = operation.autocast is not None
    right = operation.op(*(x.float() if isinstance(x, Tensor) and wide else x for x in lower))
    for ours, theirs in zip(*((t,) if isinstance(t, Tensor) else t for t in (made, right)), strict=True):
        assert torch.equal(ours, theirs)


def test_kernels_refuse_other_dtypes() -> None:
    q = torch.randn(1, 1, 5, 16, dtype=torch.float64)
    with pytest.raises(TypeError, match="compiled kernels take float32 or bfloat16, not"):
        ExactAttention.op(q, q, q, False)


def test_directions_are_laid_out_once_and_again_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    from vixformer.ops import feature_maps as maps

    made: list[int] = []
    plain = maps._lay
    monkeypatch.setattr(maps, "_lay", lambda *args: (made.append(1), plain(*args))[1])
    own, (q, k, v) = directions.clone(), (heads(), heads(), heads())

    def out() -> Tensor:
        return ops.linear_attention(q, k, v, ops.ReluMap(directions=own, eps=1e-3))

    def right() -> Tensor:
        return ops.linear_attention_slow(q, k, v, ops.ReluMap(directions=own, eps=1e-3))

    for change in (lambda: None, lambda: own.mul_(2.0), lambda: own.data.mul_(2.0)):  # .data changes no version
        change()
        made.clear()
        assert distance(out(), right()) <= 1e-5
        assert distance(out(), right()) <= 1e-5
        assert len(made) == 1
    own.mul_(2.0)
    with torch.inference_mode():
        out()
    out().sum().backward()  # keeps what inference laid out
    assert pickle.loads(pickle.dumps(own)).equal(own)
    assert copy.deepcopy(own).equal(own)


def test_a_mask_of_another_shape_is_refused() -> None:
    q = heads()
    with pytest.raises(ValueError, match=r"a mask of 20 keys is boolean, \(2, 20\), not torch.float32, \(2, 20\)"):
        ops.linear_attention(q, q, q, ops.ReluMap(eps=1e-3), mask=torch.ones(2, N))


def test_a_feature_map_of_others_gets_its_attention_from_a_kernel() -> None:
    class Square:
        """Third-party code: it has never heard of kernels."""

        def __call__(self, x: Tensor, keys: bool) -> Tensor:
            return x.square() + 0.1

        def tensors(self) -> tuple[Tensor, ...]:
            return ()

        def made_of(self, *tensors: Tensor) -> Square:
            return self

        def check(self, width: int) -> None:
            pass

    q, k, v = heads(), heads(9), heads(9)
    before = native.calls()
    out = ops.linear_attention(q, k, v, Square())
    assert native.calls() > before
    right = ops.linear_attention_slow(q, k, v, Square())
    assert distance(out, right) <= 1e-5
    for ours, theirs in zip(*(torch.autograd.grad(t.square().sum(), [q, k, v]) for t in (out, right)), strict=True):
        assert distance(ours, theirs) <= 1e-5
