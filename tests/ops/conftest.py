"""A cache of compiled kernels for tests, and a compiler that takes no time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from vixformer.ops import affine, native, tokenwise
from vixformer.ops.native import build
from vixformer.ops.softmax import exact_attention

QUICK = "-O0"  # compiled in a fifth of the time


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled once for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "whole"))
        patch.setenv("VIX_NATIVE_FLAGS", QUICK)
        build.found.cache_clear()
        built = native.library()
    assert built is not None
    return Path(built._name)


class Cache:
    """A private cache, and a compiler that has compiled this before (as ccache has): it copies, and counts how
    often."""

    def __init__(self, home: Path, whole: Path) -> None:
        self.folder, self.log = home / "cache" / "vix" / "native", home / "log"
        self.script = home / "compiler"
        self.script.write_text(
            f'#!/bin/sh\necho $$ >> "{self.log}"\nsleep "$1"\nwhile [ "$1" != -o ]; do shift; done\ncp "{whole}" "$2"\n'
        )
        self.script.chmod(0o755)

    def load(self) -> bool:
        """As a new process would, and whether it works."""
        build.found.cache_clear()
        return native.library() is not None and _answers()

    @property
    def file(self) -> Path:
        (file,) = self.folder.glob("*.so")
        return file

    def replace(self, content: bytes) -> None:
        """By another file: the one that this process has loaded must stay."""
        file = self.file
        file.unlink()
        file.write_bytes(content)

    @property
    def compilations(self) -> int:
        return len(self.log.read_text().splitlines())


@pytest.fixture
def cache(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    cache = Cache(tmp_path, whole)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", f"{cache.script} 0.2")
    return cache


def _answers() -> bool:
    q = torch.randn(1, 2, 5, 16)
    out = exact_attention(q, q, q)
    return out is not None and torch.allclose(out, torch.nn.functional.scaled_dot_product_attention(q, q, q), atol=1e-5)


@pytest.fixture
def on_every_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch's products are fast, ours are not chosen, but they work."""
    for module in (affine, tokenwise):
        monkeypatch.setattr(module, "products_are_faster", lambda dtype: True)
