"""Heads of a Performer that attend exactly, in a window."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.support.attentions import distance
from tests.support.formulas import HEADS, K, core


def windowed(n: int, window: int, causal: bool) -> Tensor:
    """Which token may see which: those of its own segment and of the ones beside it."""
    i = torch.arange(n)
    near = (i[:, None] // window - i // window).abs() <= 1
    return near & (i[:, None] >= i) if causal else near


@torch.no_grad()
@pytest.mark.parametrize(("n", "window"), [(5, 2), (8, 2), (5, 5), (9, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_local_heads_of_a_performer_attend_exactly_in_a_window(causal: bool, n: int, window: int) -> None:
    options = f"kernel=relu, features=6, causal={str(causal).lower()}"
    c = core(f"performer({options}, local_heads=1, window={window})")
    plain = core(f"performer({options})")
    q, k, v = torch.randn(3, 2, HEADS, n, K)
    out = c(q, k, v)
    assert distance(out[:, :1], plain(q, k, v)[:, :1]) <= 1e-6  # the heads before them are as they were
    scores = (q[:, 1] @ k[:, 1].mT / K**0.5).masked_fill(~windowed(n, window, causal), -torch.inf)
    assert distance(out[:, 1], scores.softmax(-1) @ v[:, 1]) <= 1e-6
    assert torch.equal(c.attention_map(q, k)[0, 1] > 0, windowed(n, window, causal))


def test_local_heads_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 local heads, more than the 2 heads"):
        core("performer(local_heads=3)")
    with pytest.raises(ValueError, match="give local_heads too"):
        core("performer(window=16)")
