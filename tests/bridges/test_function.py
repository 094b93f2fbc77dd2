"""A mechanism as a function of q, k and v, beside torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.attentions import distance
from vixformer import attention_function
from vixformer.bridges.function import _core  # pyright: ignore[reportPrivateUsage]


def test_softmax_is_torch_s_function() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 9, 8, requires_grad=True).unbind(0)
    f = attention_function("softmax")
    assert distance(f(q, k, v), F.scaled_dot_product_attention(q, k, v)) <= 1e-6
    assert distance(f(q, k, v, scale=0.1), F.scaled_dot_product_attention(q, k, v, scale=0.1)) <= 1e-6
    mask = torch.rand(2, 1, 1, 9) > 0.3
    assert distance(f(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask)) <= 1e-6
    added = torch.zeros(2, 1, 1, 9).masked_fill(~mask, -torch.inf)
    assert torch.equal(f(q, k, v, added), f(q, k, v, mask))
    assert torch.equal(f(q[0], k[0], v[0]), f(q, k, v)[0])
    one = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    assert distance(f(q, k[:, :2], v[:, :2], enable_gqa=True), one) <= 1e-6
    causal = attention_function("softmax(causal=true)")
    wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert distance(causal(q, k, v, is_causal=True), wanted) <= 1e-6


@pytest.mark.parametrize("attention", ["performer", "performer(kernel=relu, features=none)", "cosine"])
def test_every_call_is_the_same_and_has_gradients(attention: str) -> None:
    q, k, v = torch.randn(3, 2, 4, 9, 8).unbind(0)
    _core.cache_clear()
    with torch.inference_mode():  # the first call makes the features, for those that train too
        attention_function(attention)(q, k, v)
    q.requires_grad_()
    out = attention_function(attention)(q, k, v)
    assert torch.equal(attention_function(attention)(q, k, v), out)
    out.square().sum().backward()
    assert q.grad is not None and q.grad.abs().sum() > 0


def test_what_is_refused() -> None:
    q, k, v = torch.randn(3, 2, 4, 9, 8).unbind(0)
    f = attention_function("performer(kernel=relu, features=none)")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("has no attention weights to drop", {"dropout_p": 0.1}),
        ("lets every token see all others", {"is_causal": True}),
        ("hides different ones", {"attn_mask": torch.ones(9, 9).tril().bool()}),
        ("no scores to add the numbers of this mask to", {"attn_mask": torch.randn(9, 9)}),
    ]
    for message, options in refused:
        with pytest.raises(ValueError, match=message):
            f(q, k, v, **options)
    with pytest.raises(ValueError, match="lets every token see all others"):
        attention_function("cosine")(q, k, v, is_causal=True)
    with pytest.raises(ValueError, match=r"pass enable_gqa=True"):
        f(q, k[:, :2], v[:, :2])
    for text, message in (
        ("hedgehog", "learns weights"),
        ("first(cosine)", "one attention"),
        ("fourier", "neither q nor k"),
    ):
        with pytest.raises(ValueError, match=message):
            attention_function(text)
