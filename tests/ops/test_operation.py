"""What torch knows of operations that compiled kernels run, and everything that people do with such an operation."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.attention.cases import distance
from vixformer import ops
from vixformer.ops import native
from vixformer.ops.convolution import Convolution
from vixformer.ops.feature_attention import FeatureAttention
from vixformer.ops.fourier import FourierMix
from vixformer.ops.fused import LinearAttention
from vixformer.ops.linformer import LinformerAttention
from vixformer.ops.nystrom import NystromAttention
from vixformer.ops.operation import Operation
from vixformer.ops.rotary import Rotate
from vixformer.ops.softmax import ExactAttention

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
N = 20


def heads(n: int = N, width: int = 16) -> Tensor:
    """As they come out of a projection."""
    return torch.randn(2, n, 2, width).transpose(1, 2).requires_grad_()


def half_heads(n: int = N, width: int = 16) -> Tensor:
    return heads(n, width).detach().bfloat16().requires_grad_()


def learned(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def network() -> dict[str, Any]:
    return dict(first=learned(16, 16), bias=learned(16), second=learned(16, 16), shift=learned(16))


def factors() -> Tensor:
    return torch.rand(2, 16).add_(0.5).requires_grad_()


directions = torch.randn(24, 16)
grid = (4, 5)
angles = torch.randn(N, 8)
CALLS: dict[str, tuple[type[Operation], Callable[..., Tensor], Callable[[], tuple[Any, ...]]]] = {
    "relu": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.ReluMap(directions=directions, eps=1e-3))),
    "relu of many": (LinearAttention, ops.linear_attention, lambda: (heads(200), heads(200), heads(200), ops.ReluMap(eps=1e-3), 0.1)),
    "exp": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.ExpMap(directions=directions, scale=0.5, weight=0.125, eps=1e-4)),
    ),
    "network": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.NetworkMap(**network(), smooth=True))),
    "masked": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.ReluMap(directions=directions, eps=1e-3), 0.1, torch.arange(2 * N).view(2, N) % 3 > 0),
    ),
    "masked exp": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.ExpMap(weight=0.1, eps=1e-3), 0.0, torch.arange(2 * N).view(2, N) % 3 > 0),
    ),
    "elu": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.EluMap(directions=directions, alpha=0.5))),
    "gelu": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.GeluMap(directions=directions, eps=0.2))),
    "cosine": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.CosineMap())),
    "hedgehog": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.HedgehogMap(learned(2, 16, 16), learned(2, 16, 16))),
    ),
    "focused": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.FocusedMap(factors(), 3.0))),
    "features": (FeatureAttention, ops.feature_attention, lambda: (heads().exp(), heads(7).exp(), heads(7, 24))),
    "odd features": (
        FeatureAttention,
        ops.feature_attention,
        lambda: (heads(120, 13).exp(), heads(97, 13).exp(), heads(97, 8), 0.1, 1e-3),
    ),
    "exact": (ExactAttention, ops.softmax_attention, lambda: (heads(), heads(), heads())),
    "exact in bfloat16": (ExactAttention, ops.softmax_attention, lambda: (half_heads(), half_heads(7), half_heads(7))),
    "relu in bfloat16": (
        LinearAttention,
        ops.linear_attention,
        lambda: (half_heads(100), half_heads(100), half_heads(100), ops.ReluMap(directions=directions, eps=1e-3)),
    ),
    "network in bfloat16": (
        LinearAttention,
        ops.linear_attention,
        lambda: (half_heads(), half_heads(), half_heads(), ops.NetworkMap(**network(), smooth=True)),
    ),
    "linformer in bfloat16": (
        LinformerAttention,
        ops.linformer_attention,
        lambda: (half_heads(), half_heads(), half_heads(), learned(N, 8), learned(N, 8)),
    ),
    "nystrom in bfloat16": (NystromAttention, ops.nystrom_attention, lambda: (*(half_heads() for _ in range(3)), 16, 3, learned(2, 3))),
    "convolution in bfloat16": (Convolution, ops.add_convolution, lambda: (half_heads(), half_heads(), learned(32, 1, 3, 3), None, grid)),
    "rotation in bfloat16": (Rotate, ops.rotate, lambda: (half_heads(N, 24), torch.randn(N, 12).cos(), torch.randn(N, 12).sin())),
    "exact of few": (ExactAttention, ops.softmax_attention, lambda: (heads(), heads(7), heads(7))),
    "linformer": (LinformerAttention, ops.linformer_attention, lambda: (heads(), heads(), heads(), learned(N, 8), learned(N, 8))),
    "linformer by head": (
        LinformerAttention,
        ops.linformer_attention,
        lambda: (heads(7), heads(), heads(), learned(2, N, 8), learned(2, N, 8)),
    ),
    "nystrom": (NystromAttention, ops.nystrom_attention, lambda: (heads(), heads(), heads(), 16, 3, learned(2, 3))),
    "nystrom alone": (NystromAttention, ops.nystrom_attention, lambda: (heads(), heads(), heads(), 16, 3)),
    "convolution": (Convolution, ops.add_convolution, lambda: (heads(), heads(), learned(32, 1, 3, 3), None, grid)),
    "rotation": (Rotate, ops.rotate, lambda: (heads(), angles.cos(), angles.sin())),
    "fourier": (FourierMix, ops.fourier_mix, lambda: (learned(2, N, 6),)),
}
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


def leaf(x: Any, trains: bool = True) -> Any:
    return x.detach().requires_grad_(trains and x.requires_grad) if isinstance(x, Tensor) else x


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
    assert forward > 0 or name.startswith("rotation")
    assert counter.get_total_flops() > forward or name.startswith("rotation")


@every
def test_gradients_of_gradients_are_right_or_refused(name: str) -> None:
    _, function, arguments = CALLS[name]
    args = arguments()

    def twice() -> tuple[Tensor, ...]:
        first = torch.autograd.grad(function(*args).square().sum(), tensors(args), create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), tensors(args))  # pyright: ignore

    with ops.portable(), sdpa_kernel(SDPBackend.MATH):
        right = twice()
    if hasattr(CALLS[name][0], "backward"):
        with pytest.raises(NotImplementedError, match=r"no second derivatives: compute them inside `with vixformer.ops.portable\(\), "):
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


@pytest.mark.skipif(not hasattr(torch.library, "register_autocast"), reason="operations have autocast rules from torch 2.7 on")
@every
def test_autocast_does_not_make_it_less_precise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, args = passed(name, monkeypatch)
    args = tuple(leaf(x, trains=False) for x in args)
    lower = tuple(x.bfloat16() if isinstance(x, Tensor) else x for x in args)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = operation.op(*lower)
    right = operation.op(*(x.float() if isinstance(x, Tensor) else x for x in lower))
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
