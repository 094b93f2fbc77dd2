"""Every mechanism can be compiled and exported."""

from __future__ import annotations

import pytest
import torch

from tests.support.attentions import (
    ALL,
    CAUSAL,
    DIM,
    KERNELS,
    WORDS,
    build,
    distance,
    slow_unless,
)

TRACED = [slow_unless(a in WORDS or a in KERNELS, a) for a in (*ALL, *CAUSAL)]
"""A trace takes half a second: one of every word and every kernel in the quick run."""


@pytest.mark.parametrize("attention", TRACED)
def test_compiles_in_one_graph(attention: str) -> None:
    torch.compiler.reset()
    module, x = build(attention, 65), torch.randn(2, 65, DIM)
    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True, backend="eager")
        assert distance(compiled(x), module(x)) <= 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # inductor's own
@pytest.mark.parametrize("attention", [*ALL, *CAUSAL])
def test_compiles_with_inductor(attention: str) -> None:
    torch.compiler.reset()
    module, x = build(attention, 65), torch.randn(2, 65, DIM)
    with torch.no_grad():
        compiled = torch.compile(module, fullgraph=True)
        assert distance(compiled(x), module(x)) <= 1e-4


@pytest.mark.parametrize("attention", TRACED)
def test_exports_with_a_dynamic_batch(attention: str) -> None:
    module, x = build(attention, 65), torch.randn(2, 65, DIM)
    with torch.no_grad():
        program = torch.export.export(
            module, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)}, None, None, None)[:1]
        )
        five = torch.randn(5, 65, DIM)
        assert distance(program.module()(five), module(five)) <= 1e-5


@pytest.mark.usefixtures("toy")
def test_a_new_mechanism_exports_too() -> None:
    test_exports_with_a_dynamic_batch("toy")
