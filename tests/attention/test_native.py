"""The loops in C say what the reference says, and nobody needs them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.attention.cases import build, core_of, distance
from vixformer import create_attention
from vixformer.attention import native

compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


@pytest.fixture
def fresh() -> Iterator[None]:
    """Look for the library anew, before and after."""
    native.library.cache_clear()
    yield
    native.library.cache_clear()


@compiler
@pytest.mark.parametrize("n", [17, 64, 65, 95, 96, 97, 197, 800])
@pytest.mark.parametrize("options", ["", ", conv=none", ", iterations=1", ", conv=3", ", conv=1, iterations=9"])
@pytest.mark.parametrize("landmarks", [16, 48])
@torch.no_grad()
def test_nystrom_equals_the_reference(n: int, options: str, landmarks: int) -> None:
    assert native.library() is not None
    core = core_of(build(f"nystrom(landmarks={landmarks}{options})", n, dim=64, heads=2))
    q, k, v = (1.5 * torch.randn(3, 2, n, 32) for _ in range(3))
    if n > landmarks:
        filters = None if core.conv is None else core.conv.weight.flatten(1)  # pyright: ignore
        assert native.nystrom(q, k, v, landmarks, core.config.iterations, filters) is not None
    assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5


@compiler
@pytest.mark.parametrize("n", [1, 17, 95, 96, 97, 197, 800])
@pytest.mark.parametrize("features", [1, 16, 24, 64, 110])
@pytest.mark.parametrize("kernel", ["relu", "relu, total_eps=0.01, scale=half", "softmax", "softmax, eps=0", "gaussian", "gaussian, eps=0"])
@torch.no_grad()
def test_linear_attention_equals_the_reference(n: int, features: int, kernel: str) -> None:
    core = core_of(build(f"performer(kernel={kernel}, features={features})", n, dim=64, heads=2))
    q, k, v = (1.5 * torch.randn(3, 2, n, 32) for _ in range(3))
    k[1] *= 4  # the largest key is not in the first block, and one image is unlike the others
    k[:, :, n // 2] *= 2
    assert core.native(q, k, v) is not None  # pyright: ignore
    assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5


@compiler
@pytest.mark.parametrize("n", [1, 17, 96, 97, 385, 800])
@pytest.mark.parametrize("rank", [16, 64])
@torch.no_grad()
def test_few_keys_equal_exact_attention(n: int, rank: int) -> None:
    q, k, v = torch.randn(2, n, 3, 32).transpose(1, 2), torch.randn(2, 3, rank, 32), torch.randn(2, rank, 3, 32).transpose(1, 2)
    out = native.few_keys(q, k, v)
    assert out is not None
    assert distance(out, torch.nn.functional.scaled_dot_product_attention(q, k, v)) <= 1e-5
    core = core_of(build(f"linformer(rank={rank})", n, dim=96, heads=3))
    q, k, v = (torch.randn(2, 3, n, 32) for _ in range(3))
    assert distance(core(q, k, v), core.reference(q, k, v)) <= 1e-5


@compiler
@torch.no_grad()
@pytest.mark.parametrize("kernel", ["cosh", "angular", "matrix", "exp", "gelu"])
def test_other_kernels_are_left_to_torch(kernel: str) -> None:
    core = core_of(build(f"performer(kernel={kernel}, features=16)", 20, dim=32, heads=2))
    q = torch.randn(1, 2, 20, 16)
    assert core.native(q, q, q) is None  # pyright: ignore


@compiler
@torch.no_grad()
def test_any_strides() -> None:
    core = core_of(build("nystrom(landmarks=16)", 50, dim=64, heads=4))
    packed = torch.randn(2, 50, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
    one_head = torch.randn(2, 1, 50, 16).expand(2, 4, 50, 16)
    turned = torch.randn(2, 4, 16, 50).transpose(-1, -2)
    for q, k, v in (packed, (packed[0].contiguous(), one_head, one_head), (turned, packed[1], turned)):
        out = native.nystrom(q, k, v, 16, 6, None)
        assert out is not None
        assert distance(out + core.conv(v), core.reference(q, k, v)) <= 1e-5  # pyright: ignore


@compiler
@torch.no_grad()
def test_large_scores_do_not_overflow() -> None:
    q, k, v = (40 * torch.randn(1, 2, 70, 16) for _ in range(3))
    out = native.nystrom(q, k, v, 16, 6, None)
    assert out is not None
    assert out.isfinite().all()


def test_torch_does_what_c_cannot() -> None:
    q = torch.randn(1, 2, 70, 16)
    assert native.nystrom(q.double(), q.double(), q.double(), 16, 6, None) is None
    assert native.nystrom(q.clone().requires_grad_(), q, q, 16, 6, None) is None
    assert native.nystrom(q, q, q, 7, 6, None) is None
    assert native.nystrom(q.to("meta"), q.to("meta"), q.to("meta"), 16, 6, None) is None


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("setting", [{"VIX_NATIVE": "0"}, {"CC": "no-such-compiler"}, {"CC": "false"}])
def test_nobody_needs_it(setting: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for key, value in setting.items():
        monkeypatch.setenv(key, value)
    module = create_attention("nystrom(landmarks=16)", dim=32, num_heads=2).eval()
    with torch.no_grad():
        assert module(torch.randn(1, 40, 32)).isfinite().all()
    assert native.library() is None
    assert not list(tmp_path.rglob("*.so"))


@compiler
@pytest.mark.usefixtures("fresh")
def test_it_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native.library() is not None
    (built,) = tmp_path.rglob("*.so")
    made = built.stat().st_mtime_ns
    native.library.cache_clear()
    assert native.library() is not None
    assert [p.stat().st_mtime_ns for p in tmp_path.rglob("*.so")] == [made]
    assert not [p for p in built.parent.iterdir() if p != built]  # no temporary folder left


@compiler
@pytest.mark.usefixtures("fresh")
def test_an_unwritable_cache_is_no_disaster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert native.library() is None
