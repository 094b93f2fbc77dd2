"""What tests share: one thread, one seed, runs to look at, and a browser to look at pages with."""

from __future__ import annotations

import functools
import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from vixformer.attention.base import Core, Mechanism
from vixformer.attention.kernels.kernel import Kernel
from vixformer.attention.kernels.relu import ReLU
from vixformer.ops import Grid

torch.set_num_threads(1)  # pytest-xdist runs a process a core
# so do the commands that tests start: threads that want one core wait for each other
os.environ["OMP_NUM_THREADS"] = "1"
RELU = "performer(kernel=relu, features=16)"

ATTENTIONS = {
    "exact": "softmax",
    "all": RELU,
    "mixed": f"{RELU} + softmax",
    "more": "performer(kernel=relu, features=32)",
}


COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""Every test of this run, also those that a mark or an expression leaves out."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COLLECTED] = list(items)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _embedded_images_are_unpacked_once() -> Iterator[None]:
    """They take a third of the time of a tiny training, and most tests train something."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lzma, "decompress", functools.lru_cache(4)(lzma.decompress))
        yield


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four models of two seeds, on images that are in the package."""
    from tests.support.recipes import tiny
    from vixformer.experiments.compare import compare

    folder = tmp_path_factory.mktemp("runs")
    compare({name: tiny(attention=attention, epochs=2) for name, attention in ATTENTIONS.items()}, folder, seeds=2)
    return folder


@pytest.fixture(scope="session")
def with_timm() -> Iterator[Callable[[str], None]]:
    from tests.support.timm import process_with_timm

    with process_with_timm() as run:
        yield run


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = (
        os.environ.get("VIX_CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if path is None:
        pytest.skip("there is no Chromium: install Debian's chromium, or say where it is with VIX_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def toy() -> Iterator[None]:
    class Toy(Core, name="toy"):
        """Every token takes the mean of all values, times a gain."""

        @dataclass(frozen=True, kw_only=True)
        class Config:
            gain: float = 1.0

        config: Config

        def forward(
            self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
        ) -> Tensor:
            weight = torch.ones_like(v[..., :1]) if mask is None else mask[:, None, :, None].to(v.dtype)
            total = weight.sum(-2, keepdim=True).clamp(min=1)
            return (self.config.gain * (v.masked_fill(weight == 0, 0) / total).sum(-2, keepdim=True)).expand_as(v)

        def reference(
            self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
        ) -> Tensor:
            return self.config.gain * self.attention_map(q, k, mask) @ v

        def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
            weight = torch.ones_like(q[..., 0]) if mask is None else mask[:, None].to(q.dtype).expand_as(q[..., 0])
            return (weight / weight.sum(-1, keepdim=True)).unsqueeze(-2).expand(*q.shape[:3], q.shape[2])

        def macs(self, n: int) -> int:
            return 0

    class Square(ReLU, name="square"):
        def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
            return u.square() + self.config.eps

    yield
    del Mechanism.members["toy"], Kernel.members["square"]
