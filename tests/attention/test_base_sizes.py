"""Shapes that attention takes, and what it says of others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.attentions import (
    ALL,
    DIM,
    WORDS,
    build,
    is_core,
)
from vixformer import create_attention


@settings(max_examples=60, deadline=None)
@given(
    attention=st.sampled_from(ALL),
    batch=st.integers(1, 3),
    n=st.integers(1, 90),
    heads=st.integers(1, 3),
    width=st.sampled_from([1, 2, 4, 5, 8]),
)
def test_any_shape(attention: str, batch: int, n: int, heads: int, width: int) -> None:
    module = create_attention(attention, dim=heads * width, num_heads=heads, num_tokens=n)
    x = torch.randn(batch, n, heads * width, requires_grad=True)
    out = module(x)
    out.square().mean().backward()
    assert out.shape == x.shape
    assert out.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("attention", WORDS)
def test_shape_errors_say_what_would_be_right(attention: str) -> None:
    module = build(attention, 9)
    with pytest.raises(ValueError, match=r"\(batch, tokens, 32\), not \(1, 9, 31\)"):
        module(torch.randn(1, 9, 31))
    if is_core(attention):
        with pytest.raises(ValueError, match="mask must be boolean"):
            module(torch.randn(1, 9, DIM), mask=torch.ones(1, 9))
    with pytest.raises(ValueError, match="at least one token"):
        module(torch.randn(1, 0, DIM))
    with pytest.raises(ValueError, match="both at least 1"):
        module(torch.randn(1, 9, DIM), grid=(0, 9))
    with pytest.raises(ValueError, match="more places"):
        module(torch.randn(1, 9, DIM), grid=(4, 4))


def test_too_many_tokens_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="built for 9 tokens and got 10"):
        build("linformer", 9)(torch.randn(1, 10, DIM))
    with pytest.raises(ValueError, match="built for 9 tokens and got 8"):
        build("mlp", 9)(torch.randn(1, 8, DIM))
    assert build("linformer", 9)(torch.randn(1, 4, DIM)).shape == (1, 4, DIM)
    for attention in ("linformer", "mlp"):
        with pytest.raises(ValueError, match="pass num_tokens="):
            create_attention(attention, dim=8, num_heads=2)


@pytest.mark.parametrize(
    ("attention", "options", "message"),
    [
        ("first(performer)", {}, "one layer takes one attention"),
        ("performer + softmax", {}, "one layer takes one attention"),
        ("performer | softmax", {}, "one layer takes one attention"),
        ("softmax", {"num_tokens": 0}, "num_tokens must be greater than 0"),
        ("softmax", {"head_dim": 0}, "head_dim must be greater than 0"),
        ("softmax", {"dim": "wide"}, "dim must be a whole number"),
        ("softmax", {"num_heads": 3}, "num_heads must divide dim"),
        ("softmax", {"proj": "nope"}, "unknown projection"),
    ],
)
def test_create_attention_checks_its_options(attention: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_attention(attention, **{"dim": 8, "num_heads": 2, **options})
