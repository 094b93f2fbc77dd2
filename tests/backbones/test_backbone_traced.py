"""Every backbone can be compiled and exported."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support.attentions import convolves, distance, slow_unless
from tests.support.models import EVERY, SMALL, images, small

COVERING = [slow_unless(word == "lens" or (name == "vit" and convolves(word)), name, word) for name, word in EVERY]
"""Every backbone, and in one of them every mechanism that may want its grid: test_base_traced.py traces all of them."""


def traced(name: str, attention: str) -> Any:
    """One layer of a kind is enough for a tracer, which takes as long for each."""
    return small(name, attention, **{key: 1 for key in SMALL[name][1] if key == "depth"}).eval()


@pytest.mark.parametrize(("name", "word"), COVERING)
def test_export(name: str, word: str) -> None:
    model = traced(name, word)
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.export.export(model, (x,)).module()(x), model(x)) <= 1e-5


@pytest.mark.parametrize(("name", "word"), COVERING)
def test_compiles_in_one_graph(name: str, word: str) -> None:
    torch.compiler.reset()
    model = traced(name, word)
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.compile(model, fullgraph=True, backend="eager")(x), model(x)) <= 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # inductor's own
@pytest.mark.parametrize("name", SMALL)
def test_compiles_with_inductor(name: str) -> None:
    """In evaluation, and in training, where blocks make some things again unless a compiler decides."""
    torch.compiler.reset()
    model = small(name, "performer(kernel=relu, features=8)").eval()
    x = images(model, 2)
    with torch.no_grad():
        assert distance(torch.compile(model, fullgraph=True)(x), model(x)) <= 1e-4
    torch.compile(model.train())(x).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
