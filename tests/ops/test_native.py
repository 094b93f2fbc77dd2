"""What all compiled kernels promise: when they run, in which precision, and of which strides."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.attentions import build, core_of, distance
from tests.support.kernels import MAPS, calls, compiler
from vixformer import create_attention, ops
from vixformer.ops import native, rotary
from vixformer.ops.softmax import exact_attention


@compiler
@pytest.mark.parametrize(
    "word", ["softmax", "performer(features=16)", "nystrom(landmarks=16)", "linformer(rank=16)", "lens", "prism"]
)
def test_gradients_are_written_where_the_layer_before_wants_them(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side: nothing is put there once more, and they are those that torch's own split would pass on."""
    attention: Any = create_attention(word, dim=64, num_heads=2, num_tokens=25)
    x = torch.randn(3, 25, 64)
    joined: list[int] = []
    plain = torch.cat
    monkeypatch.setattr(torch, "cat", lambda *args: joined.append(1) or plain(*args))
    (ours,) = torch.autograd.grad(attention(x, grid=(5, 5)).square().sum(), attention.qkv.weight)
    assert not joined
    monkeypatch.setattr(rotary, "unwatched", lambda: False)
    (right,) = torch.autograd.grad(attention(x, grid=(5, 5)).square().sum(), attention.qkv.weight)
    assert distance(ours, right) <= 1e-6


@compiler
def test_training_takes_the_compiled_way() -> None:
    """Or nothing above would say anything about training."""
    with calls() as called:
        for word in ("softmax", "performer(kernel=relu, features=16)", "performer(features=16)", "linformer(rank=5)"):
            create_attention(word, dim=32, num_heads=2, num_tokens=20)(
                torch.randn(2, 20, 32, requires_grad=True)
            ).sum().backward()
    assert called == [
        *["exact", "exact_backward"],
        *["linear_attention", "linear_attention_backward"] * 2,
        *["exact", "exact_backward"],
    ]
    with calls() as called:
        layer = create_attention("linformer(rank=8)", dim=32, num_heads=2, num_tokens=20)
        layer(torch.randn(2, 20, 32, requires_grad=True)).sum().backward()
    assert called == ["along", "along", "exact", "exact_backward", "along_backward", "along_backward"]


HALF = {
    "lens": ["linear_attention", "local"],
    "prism": ["linear_attention", "local"],
    "prism(end=relu, conv=none)": ["linear_attention"],
    "performer(kernel=relu, features=16, conv=3)": ["linear_attention", "local"],
    "performer(kernel=relu, features=64)": ["linear_attention"],
    "performer(kernel=relu, features=none)": ["linear_attention"],
    "performer(features=17)": ["linear_attention"],
    "performer(features=64, eps=0)": ["linear_attention"],
    "performer(kernel=exp, features=24, eps=0)": ["linear_attention"],
    **{word: ["linear_attention"] for word in MAPS},
    "softmax(conv=3)": ["exact", "local"],
    "linformer(rank=8)": ["along", "along", "exact"],
    "linformer(rank=24, share=none)": ["along", "along", "exact"],
    "nystrom(landmarks=16)": ["nystrom"],
}


@compiler
@pytest.mark.parametrize("n", [25, 99, 196])
@pytest.mark.parametrize("word", HALF)
def test_bfloat16_is_as_accurate_as_torchs_operations_in_bfloat16(word: str, n: int) -> None:
    grid = (n // 5, 5) if n < 50 else (n // 7, 7)
    core: Any = core_of(build(word, n, dim=64, heads=2))
    inputs = [torch.randn(n, 3, 2, 2, 32).permute(1, 2, 3, 0, 4)[i].bfloat16().requires_grad_() for i in range(3)]
    learned = list(core.parameters())
    grad = torch.randn(2, 2, n, 32).bfloat16()

    def found() -> list[Tensor]:
        out = core(*inputs, grid=grid)
        return [out, *torch.autograd.grad(out, [*inputs, *learned], grad)]

    with calls() as called:
        ours = found()
    assert [name for name in called if "backward" not in name and name != "local_filters"][: len(HALF[word])] == HALF[
        word
    ]
    assert [t.dtype for t in ours] == [torch.bfloat16] * 4 + [torch.float32] * len(learned)
    wide = [t.double().detach().requires_grad_() for t in inputs]
    right = core.double().reference(*wide, grid=grid)
    expected = [right, *torch.autograd.grad(right, [*wide, *core.parameters()], grad.double())]
    core.bfloat16()
    learned = list(core.parameters())
    with ops.portable(), pytest.MonkeyPatch.context() as patch:
        for module in ("fused", "feature_attention", "linformer", "nystrom", "softmax"):
            patch.setattr(f"vixformer.ops.{module}.wide", lambda x: x, raising=False)
        patch.setattr("vixformer.attention.linear_core.ops.wide", lambda x: x)
        torchs = found()
    for one, other, exact in zip(ours, torchs, expected, strict=True):
        assert distance(one, exact) <= 1.25 * distance(other, exact) + 3e-3


@compiler
@pytest.mark.parametrize("word", ["softmax", "focused", *HALF])
def test_bfloat16_is_never_less_accurate_than_torchs_own_operations(word: str) -> None:
    """Of the same bfloat16 weights, inputs and gradients; the root mean square of all errors in five draws."""
    ours, torchs = zip(*(_errors_in_bfloat16(word, seed) for seed in range(5)), strict=True)
    for one, other in zip(*(torch.tensor(errors).square().mean(0).sqrt() for errors in (ours, torchs)), strict=True):
        assert one <= other + 1e-4


def _errors_in_bfloat16(word: str, seed: int) -> tuple[list[float], list[float]]:
    """Distances from float64, each as a share of the norm, of the output and all gradients."""
    torch.manual_seed(seed)
    core: Any = core_of(build(word, 200, dim=64, heads=2)).bfloat16()
    q, k, v, grad = (torch.randn(2, 200, 2, 32).bfloat16().transpose(1, 2) for _ in range(4))

    def found(core: Any, dtype: torch.dtype) -> list[Tensor]:
        inputs = [t.to(dtype, copy=True).requires_grad_() for t in (q, k, v)]
        out = core(*inputs, grid=(10, 20))
        return [out, *torch.autograd.grad(out, [*inputs, *core.parameters()], grad.to(dtype))]

    before = native.calls()
    ours = found(core, torch.bfloat16)
    assert native.calls() >= before + 2
    with ops.portable(), pytest.MonkeyPatch.context() as patch:
        exact = found(copy.deepcopy(core).double(), torch.float64)
        for module in ("fused", "feature_attention", "linformer", "nystrom", "softmax"):
            patch.setattr(f"vixformer.ops.{module}.wide", lambda x: x, raising=False)
        patch.setattr("vixformer.attention.linear_core.ops.wide", lambda x: x)
        torchs = found(core, torch.bfloat16)
    first, second = (
        [((a - b).norm() / b.norm()).item() for a, b in zip(x, exact, strict=True)] for x in (ours, torchs)
    )
    return first, second


@compiler
@pytest.mark.parametrize(
    "word", ["lens", "performer(features=16)", "softmax(conv=3)", "linformer(rank=8)", "nystrom(landmarks=16)"]
)
def test_float16_is_widened_and_not_left_to_torch(word: str) -> None:
    core: Any = core_of(build(word, 25, dim=32, heads=2))
    inputs = [torch.randn(3, 2, 25, 16).half().requires_grad_() for _ in range(3)]
    before = native.calls()
    out = core(*inputs, grid=(5, 5))
    assert native.calls() > before
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, inputs, grad)
    assert {t.dtype for t in (out, *found)} == {torch.float16}
    expected = core.reference(*(t.double() for t in inputs), grid=(5, 5))
    for ours, right in zip(
        (out, *found), (expected, *torch.autograd.grad(expected, inputs, grad.double())), strict=True
    ):
        assert distance(ours, right) <= 1e-2


@compiler
def test_bfloat16_at_any_address() -> None:
    """Pairs are read as words of four bytes: rows that begin between them are copied."""
    odd = torch.randn(1, 2, 40, 33).bfloat16()[..., 1:]
    shifted = torch.randn(1 + 2 * 40 * 32).bfloat16()[1:].view(1, 2, 40, 32)
    out = exact_attention(odd, shifted, odd)
    assert out is not None
    assert distance(out, F.scaled_dot_product_attention(odd.double(), shifted.double(), odd.double())) <= 1e-2


@compiler
@torch.no_grad()
def test_any_strides() -> None:
    core = core_of(build("nystrom(landmarks=16)", 50, dim=64, heads=4))
    packed = torch.randn(2, 50, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
    one_head = torch.randn(2, 1, 50, 16).expand(2, 4, 50, 16)
    turned = torch.randn(2, 4, 16, 50).transpose(-1, -2)
    for q, k, v in (packed, (packed[0].contiguous(), one_head, one_head), (turned, packed[1], turned)):
        out = ops.nystrom_attention(q, k, v, 16, 6)
        assert distance(out + core.conv(v), core.reference(q, k, v)) <= 1e-5  # pyright: ignore


@compiler
@torch.no_grad()
def test_large_scores_do_not_overflow() -> None:
    q, k, v = (40 * torch.randn(1, 2, 70, 16) for _ in range(3))
    out = ops.nystrom_attention(q, k, v, 16, 6)
    assert out.isfinite().all()


def test_fewer_keys_than_queries_are_not_read_past_their_end() -> None:
    q, k, v = torch.randn(2, 2, 70, 16), torch.randn(2, 2, 20, 16), torch.randn(2, 2, 20, 16)
    for word in ("softmax", "performer(kernel=relu, features=16)", "performer(features=16)"):
        core = core_of(build(word, 70, dim=32, heads=2))
        inputs = [t.clone().requires_grad_() for t in (q, k, v)]
        out = core(*inputs)
        assert distance(out, core.reference(q, k, v)) <= 1e-5
        out.sum().backward()
        assert [t.grad.shape for t in inputs] == [t.shape for t in (q, k, v)]  # pyright: ignore
    with pytest.raises(ValueError, match="nystrom needs as many keys as queries, and there are 20 and 70"):
        core_of(build("nystrom(landmarks=16)", 70, dim=32, heads=2))(q, k, v)
    with pytest.raises(ValueError, match=r"attention takes q \(batch, heads, tokens, width\)"):
        ops.softmax_attention(q, k, v[:, :, :10])
    with pytest.raises(ValueError, match="landmarks need as many keys as queries, and there are 20 and 70"):
        ops.nystrom_attention(q, k, v, 16, 6)


@pytest.mark.parametrize("change", [{"landmarks": 7}, {"dtype": torch.float64}, {"device": "meta"}, {}])
def test_torch_does_what_kernels_cannot(change: dict[str, Any]) -> None:
    landmarks = change.pop("landmarks", 16)
    q = torch.randn(1, 2, 70, 16).to(**change)
    with calls() as called, contextlib.nullcontext() if change or landmarks == 7 else ops.portable():
        assert ops.nystrom_attention(q, q, q, landmarks, 6).shape == q.shape
    assert "nystrom" not in called
