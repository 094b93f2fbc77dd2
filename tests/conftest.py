"""What tests share: one thread, one seed, runs to look at, and a browser to look at pages with."""

from __future__ import annotations

import functools
import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

torch.set_num_threads(1)  # pytest-xdist runs a process a core
os.environ["OMP_NUM_THREADS"] = "1"  # so do the commands that tests start: threads that want one core wait for each other

RELU = "performer(kernel=relu, features=16)"
ATTENTIONS = {"exact": "softmax", "all": RELU, "mixed": f"{RELU} + softmax", "more": "performer(kernel=relu, features=32)"}


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
    from tests.training.test_loop import tiny
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
    path = os.environ.get("VIX_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium: install Debian's chromium, or say where it is with VIX_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
