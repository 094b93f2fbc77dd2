"""Kernels in a wheel: chosen by the instructions of the processor, without a compiler, on torch's OpenMP."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.ops.conftest import QUICK, Cache
from tests.support.attentions import build as build_attention
from tests.support.attentions import core_of, distance, slow_unless
from tests.support.calls import AT_ONCE, run
from tools import wheels
from vixformer.ops import native
from vixformer.ops.native import build, targets

pytestmark = pytest.mark.skipif(
    not targets.possible() or shutil.which(wheels.compiler(platform.machine())) is None,
    reason="no wheels for this machine, or no compiler for them",
)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Look for the library anew, before and after."""
    build.found.cache_clear()
    yield
    build.found.cache_clear()


SETS = targets.possible() or ["none"]
every_set = pytest.mark.parametrize("name", SETS)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of kernels in a wheel for this machine."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in (*build.SOURCES, *build.HERE.glob("*.h")):
        shutil.copy(path, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wheels, "FLAGS", [QUICK if flag == "-O3" else flag for flag in build.FLAGS])
        wheels.add_kernels(folder, platform.machine())
    return folder


@pytest.fixture
def from_wheel(wheel: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """As where that wheel is installed."""
    monkeypatch.setattr(build, "HERE", wheel)
    return cache


def test_the_library_in_the_wheel_needs_no_compiler(
    from_wheel: Cache, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert from_wheel.load()
    best = targets.possible()[0]
    assert native.status() == native.Status(True, best, str(wheel / f"{best}.so"), "from the wheel")
    assert not from_wheel.folder.exists()


@every_set
def test_every_instruction_set_here_gives_the_same_answers(
    name: str, from_wheel: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIX_NATIVE", name)
    assert from_wheel.load()
    assert native.status().instructions == name
    assert run(range(AT_ONCE)) > AT_ONCE / 4
    _equals_the_reference()


def _equals_the_reference() -> None:
    for word in (
        "softmax",
        "performer(features=16)",
        "prism",
        "linformer(rank=8)",
        "nystrom(landmarks=16)",
        "hedgehog",
    ):
        core = core_of(build_attention(word, 36, dim=64, heads=2))
        inputs = [torch.randn(2, 2, 36, 32).requires_grad_() for _ in range(3)]
        before = native.calls()
        out = core(*inputs, grid=(6, 6))
        found = torch.autograd.grad(out.sum(), inputs)
        assert native.calls() >= before + 2
        doubles = [t.detach().double().requires_grad_() for t in inputs]
        expected = core.reference(*doubles, grid=(6, 6))
        for ours, right in zip((out, *found), (expected, *torch.autograd.grad(expected.sum(), doubles)), strict=True):
            assert distance(ours, right) <= 1e-4, word


@pytest.mark.parametrize("name", [slow_unless(i == 0, name) for i, name in enumerate(SETS)])
def test_an_instruction_set_that_no_wheel_brought_is_compiled_here(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("VIX_NATIVE_FLAGS", QUICK)
    monkeypatch.setenv("VIX_NATIVE", name)
    status = native.status()
    assert (status.instructions, status.origin) == (name, "compiled here")


@pytest.mark.parametrize("setting", [{"VIX_NATIVE": "native"}, {"VIX_NATIVE_FLAGS": QUICK}])
def test_who_wants_it_compiled_here_gets_that(
    setting: dict[str, str], from_wheel: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in setting.items():
        monkeypatch.setenv(key, value)
    assert from_wheel.load()
    assert native.status().origin == "compiled here"
    assert from_wheel.compilations == 1


def test_a_processor_for_which_the_wheel_has_nothing_compiles(
    from_wheel: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "processor", lambda: "flags : fpu sse2")
    assert targets.possible() == []
    assert from_wheel.load()
    assert native.status().origin == "compiled here"


def test_a_library_in_the_wheel_that_does_not_load_is_compiled_here(
    from_wheel: Cache, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "package"
    shutil.copytree(wheel, damaged)
    for name in targets.possible():
        (damaged / f"{name}.so").write_bytes(b"no library")
    monkeypatch.setattr(build, "HERE", damaged)
    assert from_wheel.load()
    assert native.status().origin == "compiled here"


ONE_RUNTIME = r"""
import re, sys
from pathlib import Path
import torch

def runtimes():
    return set(re.findall(r"\S*/lib(?:gomp|omp|iomp)[^/\s]*", Path("/proc/self/maps").read_text()))

before = runtimes()
assert len(before) == 1, before
from vixformer.ops import native, softmax_attention
from vixformer.ops.native import build
build.HERE = Path(sys.argv[1])
q = torch.randn(4, 2, 50, 16)
softmax_attention(q, q, q)
assert native.calls() == 1
assert runtimes() == before, runtimes()
print(native.status().origin)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc/self/maps there")
@pytest.mark.parametrize(("wish", "origin"), [("", "from the wheel"), ("native", "compiled here")])
def test_torchs_openmp_is_the_only_one(wish: str, origin: str, from_wheel: Cache, wheel: Path) -> None:
    environment = {**os.environ, "VIX_NATIVE": wish, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", ONE_RUNTIME, str(wheel)], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, origin), done.stderr
