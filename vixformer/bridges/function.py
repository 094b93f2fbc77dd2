"""`vix.attention_function`: a mechanism as a function of q, k and v."""

# B images  H heads  N tokens  K head width

from __future__ import annotations

import functools
from typing import Protocol

import torch
from torch import Tensor

from vixformer.attention.base import Core, Shape
from vixformer.attention.layout import Layer, Pattern, parse
from vixformer.bridges.attend import attend


class AttentionFunction(Protocol):
    """Takes the arguments of `torch.nn.functional.scaled_dot_product_attention`."""

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor: ...


def attention_function(attention: str, seed: int = 0) -> AttentionFunction:
    """A function of q, k and v, (..., heads, tokens, width) each, called as torch's `scaled_dot_product_attention`.

    Random features depend on `seed` and on the width of a head alone, so every call has the same. A mechanism that
    learns weights is a module: `vix.create_attention` makes one.
    """
    layer = _layer(attention)

    def attend_to(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if query.dim() < 3:
            raise ValueError(f"q must have the shape (..., heads, tokens, width), not {tuple(query.shape)}")
        if key.shape[-3] != query.shape[-3] and not enable_gqa:
            raise ValueError(
                f"q has {query.shape[-3]} heads and k has {key.shape[-3]}: pass enable_gqa=True if several queries"
                " share a key"
            )
        before = query.shape[:-3]
        q, k, v = (t.reshape(-1, *t.shape[-3:]) for t in (query, key, value))
        core = _core(layer, q.shape[1], q.shape[3], v.shape[3], query.device, seed)
        mask = attn_mask
        if mask is not None and mask.dim() > 4:
            mask = mask.expand(*before, *mask.shape[-3:]).reshape(-1, *mask.shape[-3:])
        out = attend(core, q, k, v, mask, dropout_p, is_causal, scale)
        return out.reshape(*before, *out.shape[1:])

    return attend_to


def _layer(attention: str) -> Layer:
    stages = parse(attention).stages
    layers = stages[0].layers if len(stages) == 1 and isinstance(stages[0], Pattern) else ()
    if len(layers) != 1:
        raise ValueError(f'a function is one attention, such as performer(features=64), not the layout "{attention}"')
    if not issubclass(layers[0].owner, Core):
        raise ValueError(f"{layers[0].owner.name} has neither q nor k: use a mechanism that has them")
    learned = [name for name, _ in layers[0].owner(layers[0], Shape(64, 4, 16, 17, (4, 4))).named_parameters()]
    if learned:
        raise ValueError(
            f"{attention} learns weights ({', '.join(learned[:3])}), and a function has none: use"
            " vix.create_attention, which makes a module"
        )
    return layers[0]


@functools.lru_cache(maxsize=64)
def _core(layer: Layer, heads: int, width: int, values: int, device: torch.device, seed: int) -> Core:
    with torch.inference_mode(False):  # what is drawn in it is of no use for a later call that trains
        core = layer.owner(layer, Shape(heads * width, heads, width, value_dim=values)).eval()
        assert isinstance(core, Core)
        core.draw(torch.Generator().manual_seed(seed))
        return core.to(device)
