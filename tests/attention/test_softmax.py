"""Options of exact attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from vixformer.attention.base import Shape
from vixformer.attention.layout import parse
from vixformer.measure.cost import bytes_kept


def core(expression: str, head_dim: int = 8) -> Any:
    (config,) = parse(expression).expand(1)
    torch.manual_seed(3)
    return config.owner(config, Shape(2 * head_dim, 2, head_dim))


def heads(n: int = 40, head_dim: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(3, 2, 2, n, head_dim, generator=torch.Generator().manual_seed(1)).unbind()
    return q, k, v


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"mask": True}])
def test_attention_weights_are_dropped_in_training_only(options: dict[str, bool]) -> None:
    causal = ", causal=true" if "causal" in options else ""
    mask = torch.arange(40).expand(2, 40) < 30 if "mask" in options else None
    dropping, plain = core(f"softmax(drop=0.5{causal})"), core(f"softmax(drop=0.0{causal})")
    q, k, v = heads()
    expected = plain(q, k, v, mask)
    assert torch.equal(dropping.eval()(q, k, v, mask), expected)
    dropping.train()
    torch.manual_seed(0)
    drawn = torch.stack([dropping(q, k, v, mask) for _ in range(400)])
    assert not torch.allclose(drawn[0], drawn[1])
    assert (drawn.mean(0) - expected).abs().max() < 0.35  # unbiased
    assert dropping.macs(9) == plain.macs(9)


def test_naive_exact_attention_keeps_all_weights_and_computes_the_same() -> None:
    fused, naive = core("softmax"), core("softmax(naive=true)")
    q, k, v = heads(600)
    assert torch.allclose(fused(q, k, v), naive(q, k, v), atol=1e-5)
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    kept = [bytes_kept(module, q, k, v) for module in (fused, naive)]
    assert kept[1] - kept[0] > 0.9 * 4 * 2 * 2 * 600 * 600  # images, heads and float32
