"""Rotary positions by a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.attentions import distance
from tests.support.kernels import calls, compiler
from vixformer import create_attention, ops
from vixformer.attention.project import linear
from vixformer.nn.positions import Positions
from vixformer.ops import rotary


@compiler
@pytest.mark.parametrize("word", ["softmax", "lens", "prism", "nystrom(landmarks=16)"])
@pytest.mark.parametrize("width", [8, 16, 24, 20])
def test_rotary_positions_turn_q_and_k_and_their_gradients_back(
    word: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention: Any = create_attention(word, dim=2 * width, num_heads=2, num_tokens=1 + 35)
    x = torch.randn(3, 36, 2 * width, requires_grad=True)
    rotation = Positions.member("rope2d")(2 * width, width, (5, 7), 1).rotation(x, (5, 7))
    inputs = [x, attention.qkv.weight]

    def found() -> list[Tensor]:
        out = attention(x, grid=(5, 7), rotation=rotation)
        return [out, *torch.autograd.grad(out.square().sum(), inputs)]

    with calls() as called:
        ours = found()
    assert called.count("rotate") == (4 if width % 8 == 0 else 0)  # q and k, there and back
    with torch.no_grad():
        assert distance(attention(x, grid=(5, 7), rotation=rotation), ours[0]) <= 1e-6
    q = ops.split_heads(attention.qkv(x), 2, rotation)[0]
    assert (type(q.grad_fn).__name__ == "_SplitBackward") == (width % 8 == 0)  # split and turned in one step
    monkeypatch.setattr(linear, "split_heads", _split_and_rotate)
    for one, other in zip(ours, found(), strict=True):
        assert distance(one, other) <= 1e-5


def _split_and_rotate(qkv: Tensor, heads: int, rotation: ops.Rotation) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = rotary._split(qkv, heads)
    with ops.portable():
        return ops.rotate(q, *rotation), ops.rotate(k, *rotation), v


@compiler
def test_gradients_of_gradients_of_rotary_positions() -> None:
    rotation = Positions.member("rope")(8, 8, (1, 5), 0).rotation(torch.zeros(1, 5, 8), (1, 5))
    qkv = torch.randn(2, 5, 24, requires_grad=True)

    def twice(split: Any) -> Tensor:
        q, k, v = split(qkv, 1, rotation)
        (grad,) = torch.autograd.grad((q * k * v).sum(), qkv, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), qkv)[0]

    assert distance(twice(ops.split_heads), twice(_split_and_rotate)) <= 1e-5


@compiler
@pytest.mark.parametrize("angles", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("tokens", [torch.float32, torch.float64, torch.bfloat16])
def test_tokens_and_angles_of_any_precision(tokens: torch.dtype, angles: torch.dtype) -> None:
    rotation = Positions.member("rope")(16, 16, (1, 5), 0).rotation(torch.zeros(1, 5, 16), (1, 5))
    turn = tuple(t.to(angles) for t in rotation)
    qkv = torch.randn(2, 5, 48, dtype=tokens)
    q, k, v = ops.split_heads(qkv, 1, turn)  # pyright: ignore[reportArgumentType]
    with ops.portable():
        right = ops.split_heads(qkv, 1, turn)  # pyright: ignore[reportArgumentType]
    assert all(distance(ours, theirs) <= 1e-2 for ours, theirs in zip((q, k, v), right, strict=True))
    assert distance(ops.rotate(v, *turn), turned(v, turn)) <= 1e-2


def turned(x: Tensor, turn: tuple[Tensor, ...]) -> Tensor:
    """Pairs as complex numbers."""
    cos, sin = (t.double() for t in turn)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2).to(x.dtype)
