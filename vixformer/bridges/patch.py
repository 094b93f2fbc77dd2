"""`vix.patch`: other attention in a model that we did not write."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from vixformer.attention.base import Mixer
from vixformer.attention.layout import Layer, parse, print_layers
from vixformer.backbones.backbone import Backbone
from vixformer.bridges import interface
from vixformer.bridges.find import Place, find
from vixformer.bridges.multihead import without_fast_path
from vixformer.bridges.seam import core_for, join, layers_of
from vixformer.bridges.untyped import Foreign

STORED = "vixformer"
"""Key under which the configuration of a patched model of transformers stores the layout."""


def patch(model: Foreign, attention: str, example: Foreign = None) -> Foreign:
    """Other attention in a vision transformer of transformers, timm or your own, in place; returns the model.

    `attention` is a layout over its layers. Weights stay, under their names; what a mechanism has of its own is new,
    under `core` of every attention module, as close to exact attention as can be. `example` is one batch of its input,
    for models whose input vix does not know.
    """
    if isinstance(model, Backbone):
        raise ValueError("this model is one of vixformer's own: use vix.convert(model, attention)")
    if patched := layers_of(model):
        recore(model, parse(attention).expand(len(patched)))
        return model
    places = layers_to_patch(model, example)
    layers = parse(attention).expand(len(places))
    _check(layers)
    cores = [core_for(layer, place.shape, place.like) for layer, place in zip(layers, places, strict=True)]
    for place, core in zip(places, cores, strict=True):
        join(place.module, place.kind, core.train(place.module.training))
    _settle(model)
    return model


def layers_to_patch(model: nn.Module, example: Foreign = None) -> list[Place]:
    """The layers in which every token attends to all others. If there is none, or one cannot be patched, the error says
    why."""
    found = find(model, example)
    places = [place for place in found if place.is_self]
    who = type(model).__name__
    if not places:
        rather = (
            f"none of its {len(found)} attention layers has the same tokens as queries and keys"
            if found
            else "vix can replace attention that goes through torch's scaled_dot_product_attention,"
            " nn.MultiheadAttention or the attention interface of transformers"
        )
        raise ValueError(f"{who} has no self-attention to replace: {rather}")
    for place in places:
        if place.why_not:
            raise ValueError(f"{who} cannot be patched: {place.name or who} ({type(place.module).__name__})"
                             f" {place.why_not}")  # fmt: skip
        name, rate = _dropout(place.module)
        if rate:
            raise ValueError(
                f"{who} drops attention weights in training ({place.name}.{name} = {rate:g}), which other attention"
                " does not have: make it with that rate at 0"
                + (" (timm's attn_drop_rate=0)" if name == "attn_drop" else "")
            )
    return places


def recore(model: nn.Module, layers: Sequence[Layer]) -> None:
    """Give the layers of a patched model, which stays otherwise, fresh cores."""
    _check(layers)
    for module, layer in zip(layers_of(model), layers, strict=True):
        if module.core.config != layer:
            like = next((p for p in module.parameters() if p.is_floating_point()), None)
            assert like is not None
            module.core = core_for(layer, module.core.shape, like).train(module.training)
    _settle(model)


def expression_of(model: nn.Module) -> str:
    return print_layers([module.core.config for module in layers_of(model)])


def _settle(model: Foreign) -> None:
    """Tell the model itself about its patched layers."""
    without_fast_path(model)
    if interface.is_transformers(model):
        interface.register_transformers()
        for part in model.modules():
            config = getattr(part, "config", None)
            if isinstance(part, interface.AsksInterface) and config is not None:
                config._attn_implementation_internal = interface.NAME
        setattr(model.config, STORED, {"attention": expression_of(model)})


def _check(layers: Sequence[Layer]) -> None:
    for layer in layers:
        if issubclass(layer.owner, Mixer):
            raise ValueError(
                f"{layer.owner.name} has neither q nor k, and the layers of this model have both: use a mechanism that"
                " has them"
            )


def _dropout(module: Foreign) -> tuple[str, float]:
    """Name and rate of the dropout of attention weights, under the names of timm, transformers and torch."""
    for name in ("attn_drop", "attention_dropout", "dropout", "dropout_prob", "attn_dropout"):
        value = getattr(module, name, None)
        rate = getattr(value, "p", value)
        if isinstance(rate, float) and rate > 0:
            return name, rate
    return "", 0.0
