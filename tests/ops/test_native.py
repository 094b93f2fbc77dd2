"""Compiled kernels say what the reference says, and nobody needs them."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.attention.cases import build, core_of, distance, slow_unless
from vixformer import create_attention, ops
from vixformer.attention.base import Mechanism, Shape
from vixformer.attention.project import linear
from vixformer.nn.positions import Positions
from vixformer.ops import native, rotary
from vixformer.ops.softmax import exact_attention

KERNELS = ["relu", "relu, total_eps=0.01, scale=half", "softmax", "softmax, eps=0", "gaussian", "gaussian, eps=0", "exp", "exp, eps=0"]


MAPS = [
    "hedgehog",
    "focused(conv=none)",
    "focused(conv=none, power=2)",
    "cosine",
    "performer(kernel=elu, features=24)",
    "performer(kernel=elu, features=none, alpha=0.3)",
    "performer(kernel=gelu, features=24)",
    "performer(kernel=gelu, features=none)",
    "performer(kernel=mlp, features=48)",
]


@contextlib.contextmanager
def calls() -> Iterator[list[str]]:
    """The kernels that run inside."""
    called: list[str] = []
    plain = native.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "run", lambda name, *args: (called.append(name), plain(name, *args))[1])
        yield called


compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


@compiler
@pytest.mark.parametrize("n", [17, 64, 65, 95, 96, 97, 197, 800])
@pytest.mark.parametrize("options", ["", ", conv=none", ", iterations=1", ", conv=3", ", conv=1, iterations=9"])
@pytest.mark.parametrize("landmarks", [16, 48])
@torch.no_grad()
def test_nystrom_equals_the_reference(n: int, options: str, landmarks: int) -> None:
    assert native.library() is not None
    core = core_of(build(f"nystrom(landmarks={landmarks}{options})", n, dim=64, heads=2))
    q, k, v = (1.5 * torch.randn(3, 2, n, 32) for _ in range(3))
    with calls() as called:
        assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5
    assert called == ["nystrom" if n > landmarks else "exact"]


@compiler
@pytest.mark.parametrize("n", [49, 97, 197])
@pytest.mark.parametrize("options", ["", ", conv=none", ", conv=1, iterations=1"])
@pytest.mark.parametrize("landmarks", [16, 48])
def test_the_gradients_of_nystrom_are_those_of_the_reference(n: int, options: str, landmarks: int) -> None:
    core = core_of(build(f"nystrom(landmarks={landmarks}{options})", n, dim=64, heads=2))
    wanted = [*(2 * torch.randn(3, 2, n, 32) for _ in range(3)), *core.parameters()]
    inputs = [t.requires_grad_() for t in wanted]
    out = core(*inputs[:3])
    assert type(out.grad_fn).__name__ == "_NystromAttentionBackward"
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, inputs, grad)
    right = torch.autograd.grad(core.reference(*(t.double() for t in inputs[:3])), inputs, grad.double())
    for ours, expected in zip(found, right, strict=True):
        assert distance(ours, expected) <= 1e-5


@compiler
@pytest.mark.parametrize("word", ["softmax", "performer(features=16)", "nystrom(landmarks=16)", "linformer(rank=16)", "lens", "prism"])
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
    for one, other in zip(torch.autograd.grad(out, inputs, grad), torch.autograd.grad(right, inputs, grad.double()), strict=True):
        assert distance(one, other) <= 2e-5


@compiler
@pytest.mark.parametrize("word", ["softmax", "lens", "prism", "nystrom(landmarks=16)"])
@pytest.mark.parametrize("width", [8, 16, 24, 20])
def test_rotary_positions_turn_q_and_k_and_their_gradients_back(word: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
@pytest.mark.parametrize("grid", [(1, 3), (2, 9), (5, 7), (9, 8)])
@pytest.mark.parametrize("front", [0, 1, 3])
@pytest.mark.parametrize("side", [1, 3, 5])
def test_the_convolution_of_v_and_its_gradients(grid: tuple[int, int], front: int, side: int) -> None:
    core = core_of(build(f"lens(conv={side})", front + grid[0] * grid[1], dim=64, heads=2))
    out, v = (torch.randn(3, 2, front + grid[0] * grid[1], 32).requires_grad_() for _ in range(2))
    weight = core.conv.weight  # pyright: ignore
    with calls() as called:
        ours = ops.add_convolution(out, v, weight, None, grid)  # pyright: ignore
    assert called == ["local"]
    right = core.conv.reference(out.double(), v.double(), None, grid)  # pyright: ignore
    assert distance(ours, right) <= 1e-5
    grad = torch.randn_like(ours)
    found, expected = torch.autograd.grad(ours, [out, v, weight], grad), torch.autograd.grad(right, [out, v, weight], grad.double())  # pyright: ignore
    for one, other in zip(found, expected, strict=True):
        assert distance(one, other) <= 1e-5


@compiler
@pytest.mark.parametrize("front", [0, 2])
def test_a_convolution_with_a_bias_that_heads_share(front: int) -> None:
    core: Any = core_of(build("focused", front + 35, dim=64, heads=2))
    inputs = [*(torch.randn(3, 2, front + 35, 32).requires_grad_() for _ in range(2)), *core.conv.parameters()]
    with calls() as called:
        out = core.conv(*inputs[:2], None, (5, 7))
    assert called == ["local"]
    right = core.conv.reference(*(t.double() for t in inputs[:2]), None, (5, 7))
    assert distance(out, right) <= 1e-5
    grad = torch.randn_like(out)
    for ours, expected in zip(torch.autograd.grad(out, inputs, grad), torch.autograd.grad(right, inputs, grad.double()), strict=True):
        assert distance(ours, expected) <= 1e-5


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
    ("features", "kernel"), [*itertools.product([1, 24, 64], KERNELS), *itertools.product(["none"], ["relu", "exp", "exp, eps=0"])]
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
@pytest.mark.parametrize("n", [1, 17, 97, 600])
@pytest.mark.parametrize("word", MAPS)
def test_every_feature_map_of_a_kernel_and_its_gradients(word: str, n: int) -> None:
    core: Any = core_of(build(word, n, dim=64, heads=2))
    with torch.no_grad():
        for weight in core.parameters():
            weight.add_(0.5 * torch.randn_like(weight))
    inputs = [*(1.5 * torch.randn(3, 2, n, 32) for _ in range(3)), *core.parameters()]
    inputs = [t.requires_grad_() for t in inputs]
    with calls() as called:
        out = core(*inputs[:3])
        grad = torch.randn_like(out)
        found = torch.autograd.grad(out, inputs, grad)
    assert called == ["linear_attention", "linear_attention_backward"]
    right = core.reference(*(t.double() for t in inputs[:3]))
    assert distance(out, right) <= 1e-5
    for ours, expected in zip(found, torch.autograd.grad(right, inputs, grad.double()), strict=True):
        assert distance(ours, expected) <= (1e-4 if n > 1 else 1e-2)  # of one token, the gradient of q and k is rounding alone


@compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [17, 300])
@pytest.mark.parametrize(
    "word", [*MAPS, "performer(kernel=relu, features=24)", "performer(features=24)", "performer(features=24, eps=0)", "prism(conv=none)"]
)
def test_masked_keys_and_their_gradients(word: str, n: int, dtype: torch.dtype) -> None:
    core: Any = core_of(build(word, n, dim=64, heads=2))
    mask = torch.rand(4, n) < 0.6
    mask[0], mask[1], mask[2, : n // 2], mask[2, n // 2 :] = True, False, False, True  # all, none, and the first block without any
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
def test_features_of_hedgehog_that_are_too_small_have_no_slope() -> None:
    core: Any = core_of(build("hedgehog(conv=none)", 20, dim=32, heads=2))
    inputs = [(30 * torch.randn(2, 2, 20, 16)).requires_grad_() for _ in range(3)]
    out, right = core(*inputs), core.reference(*(t.double() for t in inputs))
    for ours, expected in zip(*(torch.autograd.grad(o.sum(), inputs) for o in (out, right)), strict=True):
        assert ours.isfinite().all()
        assert (ours - expected).abs().max() <= 1e-3 * expected.abs().max() + 1e-5


@compiler
def test_training_takes_the_compiled_way() -> None:
    """Or nothing above would say anything about training."""
    with calls() as called:
        for word in ("softmax", "performer(kernel=relu, features=16)", "performer(features=16)", "linformer(rank=5)"):
            create_attention(word, dim=32, num_heads=2, num_tokens=20)(torch.randn(2, 20, 32, requires_grad=True)).sum().backward()
    assert called == [*["exact", "exact_backward"], *["linear_attention", "linear_attention_backward"] * 2, *["exact", "exact_backward"]]
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
    assert [name for name in called if "backward" not in name and name != "local_filters"][: len(HALF[word])] == HALF[word]
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
@pytest.mark.parametrize("word", ["lens", "performer(features=16)", "softmax(conv=3)", "linformer(rank=8)", "nystrom(landmarks=16)"])
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
    for ours, right in zip((out, *found), (expected, *torch.autograd.grad(expected, inputs, grad.double())), strict=True):
        assert distance(ours, right) <= 1e-2


@compiler
@pytest.mark.parametrize("n", [1, 17, 96, 97, 385, 800])
@pytest.mark.parametrize("keys", [1, 7, 16, 50, 64, 128, 257])
def test_exact_attention_and_its_gradients(n: int, keys: int) -> None:
    q, k, v = torch.randn(2, n, 3, 32).transpose(1, 2), 2 * torch.randn(2, 3, keys, 32), torch.randn(2, keys, 3, 32).transpose(1, 2)
    grad = torch.randn(2, 3, n, 32)
    ours, right = ([t.to(kind, copy=True).requires_grad_() for t in (q, k, v)] for kind in (torch.float32, torch.float64))
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
def test_bfloat16_at_any_address() -> None:
    """Pairs are read as words of four bytes: rows that begin between them are copied."""
    odd = torch.randn(1, 2, 40, 33).bfloat16()[..., 1:]
    shifted = torch.randn(1 + 2 * 40 * 32).bfloat16()[1:].view(1, 2, 40, 32)
    out = exact_attention(odd, shifted, odd)
    assert out is not None
    assert distance(out, F.scaled_dot_product_attention(odd.double(), shifted.double(), odd.double())) <= 1e-2


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


@compiler
@torch.no_grad()
@pytest.mark.parametrize("kernel", ["cosh", "angular", "matrix", "exp, clamp=4", "gelu, raw=true"])
def test_features_that_no_kernel_makes_are_made_by_torch(kernel: str) -> None:
    core = core_of(build(f"performer(kernel={kernel}, features=16)", 20, dim=32, heads=2))
    assert core.feature_map() is None  # pyright: ignore
    with calls() as called:
        core(*torch.randn(3, 2, 2, 20, 16))
    assert called == ["feature_attention"]


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


@compiler
@pytest.mark.parametrize(("batch", "n", "d"), [(1, 1, 2), (2, 5, 6), (3, 8, 7), (2, 65, 1), (1, 12, 16)])
def test_the_transform_and_its_gradient(batch: int, n: int, d: int) -> None:
    fourier: Any = Mechanism.members["fourier"]
    mixer = fourier(fourier.Config(), Shape(d, 1, d, n))
    x = torch.randn(batch, n, d, requires_grad=True)
    out = mixer(x)
    assert distance(out, ops.fourier_mix_slow(x)) <= 1e-5
    (found,) = torch.autograd.grad(out.square().sum(), x)
    (expected,) = torch.autograd.grad(ops.fourier_mix_slow(x.double()).square().sum(), x)
    assert distance(found, expected) <= 1e-5
    assert torch.autograd.gradgradcheck(mixer, x.detach().double().requires_grad_())
