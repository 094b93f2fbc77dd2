"""Wrong sizes are refused with one sentence before anything computes, the same one by compiled code and by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.attentions import CAUSAL, CORES, WORDS, build, core_of, is_core
from vixformer import create_attention, ops
from vixformer.attention.base import Mechanism, Shape
from vixformer.ops import native

N, K = 20, 16
"""A width that compiled code takes."""


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(native, "library", lambda: None)
    return request.param


def heads(b: int = 2, h: int = 2, n: int = N, k: int = K) -> Tensor:
    return torch.randn(b, h, n, k, requires_grad=True)


good = heads()
mask = torch.ones(2, N, dtype=torch.bool)
SIZES = r"takes q \(batch, 2, tokens, 16\), k \(batch, 2, keys, 16\) and v \(batch, 2, keys, 16\), not "
WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "a grid of more places": (
        (good, good, good, None, (30, 30)),
        "a grid of 30 x 30 has more places than the 20 tokens given",
    ),
    "a grid without rows": ((good, good, good, None, (0, 5)), "both at least 1, not"),
    "a grid of one side": ((good, good, good, None, (5,)), "both at least 1, not"),
    "a grid of fractions": ((good, good, good, None, (4.0, 5.0)), r"whole numbers, both at least 1, not \(4.0, 5.0\)"),
    "more heads": ((heads(h=3),) * 3, SIZES + r"\(2, 3, 20, 16\)"),
    "more heads in q": ((heads(h=3), good, good), SIZES),
    "fewer heads": ((heads(h=1),) * 3, SIZES),
    "wider heads": ((heads(k=32),) * 3, SIZES),
    "narrower heads": ((heads(k=8),) * 3, SIZES),
    "wider keys": ((good, heads(k=32), good), SIZES),
    "wider values": ((good, good, heads(k=32)), SIZES),
    "fewer values than keys": ((good, good, heads(n=7)), SIZES),
    "another batch": ((good, heads(b=1), heads(b=1)), SIZES),
    "no heads": ((good[0], good[0], good[0]), SIZES),
    "no keys": ((good, heads(n=0), heads(n=0)), "at least one token"),
    "no queries": ((heads(n=0), good, good), "at least one token"),
    "no tokens": ((heads(n=0),) * 3, "at least one token"),
    "whole numbers": ((good.detach().long(),) * 3, "must be floating-point tensors, not torch.int64"),
    "a longer mask": (
        (good, good, good, torch.ones(2, 30, dtype=torch.bool)),
        r"\(batch, tokens\) = \(2, 20\), true = keep; got torch",
    ),
    "a mask of numbers": ((good, good, good, mask.float()), r"a mask must be boolean .* got torch.float32 \(2, 20\)"),
}


@pytest.mark.parametrize(
    "attention", [*[a for a in WORDS if is_core(a)], "linformer(rank=8)", "nystrom(landmarks=16)", *CAUSAL[:2]]
)
def test_every_core_refuses_wrong_sizes(attention: str, way: str) -> None:
    core = core_of(build(attention, N))
    for args, sentence in WRONG.values():
        with pytest.raises(ValueError, match=sentence):
            core(*args)


@pytest.mark.parametrize("attention", [a for a in (*CORES, *CAUSAL) if core_of(build(a, N)).square])
def test_cores_of_as_many_keys_as_queries_say_so(attention: str, way: str) -> None:
    with pytest.raises(ValueError, match="needs as many keys as queries, and there are 7 and 20"):
        core_of(build(attention, N))(good, heads(n=7), heads(n=7))


@pytest.mark.parametrize("attention", [a for a in CORES if not core_of(build(a, N)).square])
def test_fewer_keys_than_queries_may_be_masked(attention: str, way: str) -> None:
    """Every core that takes fewer keys does so with a mask too, which is about the keys."""
    core = core_of(build(attention, N)).eval()
    keys, values, kept = heads(n=7), heads(n=7), torch.arange(7).expand(2, 7) < 5
    out, expected = core(good, keys, values, kept), core.reference(good, keys, values, kept)
    assert torch.allclose(out, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("word", [a for a in WORDS if not is_core(a)])
def test_mixers_refuse_wrong_sizes(word: str, way: str) -> None:
    mixer = Mechanism.members[word](Mechanism.members[word].Config(), Shape(32, 2, 16, 9))
    for x in (torch.randn(9, 32), torch.randn(2, 3, 9, 32), torch.randn(2, 9, 31)):
        with pytest.raises(ValueError, match=r"tokens must have the shape \(batch, tokens, 32\), not"):
            mixer(x)
    with pytest.raises(ValueError, match="at least one token"):
        mixer(torch.randn(2, 0, 32))


@pytest.mark.parametrize("proj", ["linear", "one-kv"])
@pytest.mark.parametrize("shape", [(7, 8), (21, 8), (20, 4), (20, 16), (1, 8), (20,)])
def test_a_rotation_of_another_size_is_refused(shape: tuple[int, ...], proj: str, way: str) -> None:
    attention = create_attention("softmax", dim=32, num_heads=2, proj=proj)
    wrong, right = torch.randn(shape), torch.randn(20, 8)
    for rotation in (
        (wrong, wrong),
        (right, wrong),
        (wrong, right),
        torch.stack([right, right]),
        (right,),
        (1.0, 2.0),
        5,
    ):
        with pytest.raises(ValueError, match=r"cosines and sines of 20 tokens.* two tensors \(20, 8\), not"):
            attention(torch.randn(2, 20, 32), rotation=rotation)


@pytest.mark.parametrize(
    "attention", [*WORDS, *CORES[-5:], "nystrom(landmarks=16)", "performer(kernel=prototypes)", "linformer(rank=8)"]
)
def test_an_empty_batch_gives_an_empty_batch(attention: str, way: str) -> None:
    module = build(attention, N)
    x = torch.randn(0, N, 32, requires_grad=True)
    out = module(x, grid=(4, 5))
    assert out.shape == x.shape
    out.sum().backward()
    assert x.grad is not None
    assert all(p.grad is None or p.grad.eq(0).all() for p in module.parameters())


def test_more_tokens_than_linformer_was_built_for(way: str) -> None:
    core: Any = core_of(build("linformer(rank=8)", N))
    longer = heads(n=30)
    with pytest.raises(ValueError, match="built for 20 tokens and got 30"):
        core(longer, longer, longer)
    assert core(good, heads(n=7), heads(n=7)).shape == good.shape


def test_nystrom_of_few_tokens_is_exact(way: str) -> None:
    q, k, v = heads(n=9), heads(n=9), heads(n=9)
    core = core_of(build("nystrom(landmarks=16, conv=none)", N))
    assert torch.allclose(core(q, k, v), core_of(build("softmax", N))(q, k, v), atol=1e-6)


def test_nothing_that_does_not_fit_reaches_compiled_code(way: str) -> None:
    """Whoever calls operations directly."""
    q, long, e, turns = heads(), heads(n=40), torch.randn(20, 8), torch.randn(20, 8)
    wrong: list[Callable[[], object]] = [
        lambda: ops.softmax_attention(q, long, q),
        lambda: ops.softmax_attention(q, heads(n=0), heads(n=0)),
        lambda: ops.softmax_attention(q[0], q[0], q[0]),
        lambda: ops.linformer_attention(long, long, long, e, e),
        lambda: ops.linformer_attention(q, q, q, torch.randn(3, 20, 8), torch.randn(3, 20, 8)),
        lambda: ops.linformer_attention(q, q, q, e, torch.randn(20, 16)),
        lambda: ops.nystrom_attention(q, long, long, 16, 6),
        lambda: ops.nystrom_attention(q, q, q, 16, 6, torch.randn(3, 5)),
        lambda: ops.nystrom_attention(q, q, q, 16, 6, torch.randn(2, 4)),
        lambda: ops.add_convolution(q, q, torch.randn(32, 1, 3, 3), None, (30, 30)),
        lambda: ops.add_convolution(q, q, torch.randn(16, 1, 3, 3), None, (4, 5)),
        lambda: ops.add_convolution(q, q, torch.randn(32, 1, 2, 2), None, (4, 5)),
        lambda: ops.add_convolution(q, long, torch.randn(32, 1, 3, 3), None, (4, 5)),
        lambda: ops.fourier_mix(torch.randn(5, 4)),
        lambda: ops.fourier_mix(torch.randn(2, 5, 4), (2, 3)),
        lambda: ops.linear_attention(q, long, q, ops.ReluMap()),
        lambda: ops.linear_attention(q, q, q, ops.ReluMap(directions=torch.randn(16, 32))),
        lambda: ops.linear_attention(q, q, q, ops.NetworkMap(first=e, bias=e, second=e, shift=e, smooth=True)),
        lambda: ops.feature_attention(q, long, q),
        lambda: ops.split_heads(torch.randn(2, 20, 95), 2),
        lambda: ops.split_heads(torch.randn(2, 20, 96), 2, (turns[:5], turns[:5])),
    ]
    for call in wrong:
        with pytest.raises(ValueError, match=r"[a-z]"):
            call()
