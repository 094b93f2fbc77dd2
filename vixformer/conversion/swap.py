"""Swap the attention of a trained model: keep every weight that has a counterpart, start the rest as close as can be, and say how close."""
# B images  N tokens  H heads  K head width

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from vixformer.attention.base import Mechanism, Mixer
from vixformer.attention.kernels.softmax import SoftmaxKernel
from vixformer.attention.layout import parse, print_layer, print_layers
from vixformer.attention.performer import Performer
from vixformer.attention.projection import Attention, Mixing, OneKeyValueHead
from vixformer.backbones.base import Backbone, mechanism_of
from vixformer.conversion.fit import fit
from vixformer.registry import checked

FITTED_TOKENS, FEWEST = 2**13, 8
"""What a layer is fitted to, so that it takes seconds: tokens, and at least so many images."""
ONE_WAY = (
    "this model has one key-value head for all heads and keeps it: it can get any attention, but a model with a key-value head each "
    "cannot become one like it"
)
POOR = 0.5
"""Relative error of a layer's output from which a warning is due."""


@dataclass(frozen=True)
class LayerReport:
    layer: int
    before: str
    after: str
    kept: tuple[str, ...]
    """Weights of the attention that were carried over."""
    new: tuple[str, ...]
    """Weights that had no counterpart."""
    dropped: tuple[str, ...]
    """Weights of the old mechanism that the new one has no place for."""
    q_rms: float | None = None
    """Root mean square of the entries of queries, and of keys, as the core gets them; with data."""
    k_rms: float | None = None
    error: float | None = None
    """|new - old| / |old| of the core's output for the same q, k and v; with data."""
    warning: str | None = None


@dataclass(frozen=True)
class Report:
    attention: str
    layers: tuple[LayerReport, ...]
    notes: tuple[str, ...] = ()
    """What cannot be undone, or was not done."""

    @property
    def warnings(self) -> list[str]:
        return [f"layer {r.layer}: {r.warning}" for r in self.layers if r.warning]


def convert(model: Backbone, attention: str, data: Tensor | None = None) -> tuple[Any, Report]:
    """A new model with another attention, and what became of the weights. `data` is a batch of images, normalised as in training.

    Projections, head width, norms and everything around the attention stay as they are. With data, what a mechanism learns for itself is
    fitted to the layer's own attention, and the report says how far off each layer is.
    """
    return swap(model, expanded(model, attention), data)


def swap(model: Backbone, layers: Sequence[Any], data: Tensor | None = None) -> tuple[Any, Report]:
    """`convert`, with one configuration a layer."""
    before = [mechanism_of(module) for module in model.attentions()]
    for i, (old, layer) in enumerate(zip(before, layers, strict=True)):
        _check(i, old, layer)
    new = _built(model, layers)
    changed = [i for i, (old, layer) in enumerate(zip(before, layers, strict=True)) if old.config != layer]
    _carry_over(model, new, changed)
    modules = new.attentions()
    for i in changed:
        mechanism_of(modules[i]).imitate()
    new.train(model.training)
    reports = [_report(i, model.attentions()[i], modules[i]) for i in range(len(modules))]
    if data is not None:
        reports = _measured(model, new, changed, reports, data)
    one_way = changed and any(isinstance(module, OneKeyValueHead) for module in modules)
    return new, Report(new.attention_expression(), tuple(reports), (ONE_WAY,) if one_way else ())


def expanded(model: Backbone, attention: str) -> list[Any]:
    """One configuration a layer. A Performer of the softmax kernel gets rows of one length, whose estimate is closer, unless it says."""
    depths = getattr(model.config, "depths", None) or (len(model.attentions()),)
    layers: list[Any] = parse(attention).expand(*depths)
    if "scaling" in attention:
        return layers
    return [replace(layer, scaling="sqrt") if _estimates_softmax(layer) else layer for layer in layers]


def _estimates_softmax(layer: Any) -> bool:
    return isinstance(layer, Performer.Config) and isinstance(layer.kernel, SoftmaxKernel.Config)


def _check(i: int, old: Mechanism, layer: Any) -> None:
    mixes = [kind.name for kind in (type(old), layer.owner) if issubclass(kind, Mixer)]
    if mixes and old.config != layer:
        raise ValueError(
            f"layer {i} cannot go from {old.name} to {layer.owner.name}: {mixes[0]} has no q and k, and so nothing to carry over; "
            "layers with q and k can become any other such mechanism"
        )


def _built(model: Backbone, layers: Sequence[Any]) -> Any:
    values = {field.name: getattr(model.config, field.name) for field in fields(model.config)}
    values["attention"] = print_layers(layers)
    if values.get("attention_bias") and any(layer.owner.name != "softmax" for layer in layers):
        values["attention_bias"] = False  # the bias of the layers that stay exact is in the layout
    like = next(model.parameters())
    return type(model)(checked(type(model.config), values, "convert")).to(like.device, like.dtype)


@torch.no_grad()
def _carry_over(model: Backbone, new: Backbone, changed: Sequence[int]) -> None:
    inside = tuple(name + "." for name, module in new.named_modules() if module in [mechanism_of(new.attentions()[i]) for i in changed])
    given, own = model.state_dict(), new.state_dict()
    for name, value in own.items():
        if not name.startswith(inside):
            if name not in given or given[name].shape != value.shape:
                raise ValueError(f"{name} has no counterpart in the model: it is of another width, or was built otherwise")
            value.copy_(given[name])


def _report(i: int, old: Attention | Mixing, new: Attention | Mixing) -> LayerReport:
    before, after = mechanism_of(old), mechanism_of(new)
    same = before.config == after.config
    own, theirs = ({name for name, _ in m.named_parameters()} for m in (before, after))
    kept = tuple(sorted({name for name, _ in new.named_parameters() if same or not name.startswith(("core.", "mixer."))}))
    none: tuple[str, ...] = ()
    return LayerReport(
        i, print_layer(before.config), print_layer(after.config), kept,
        none if same else tuple(sorted(theirs)), none if same else tuple(sorted(own)),
    )  # fmt: skip


def _measured(model: Backbone, new: Any, changed: Sequence[int], reports: list[LayerReport], images: Tensor) -> list[LayerReport]:
    """Every layer sees what it sees in the old model, so that errors do not add up."""
    modules = new.attentions()
    out = list(reports)
    for i, (old, tokens, options) in enumerate(model.attention_inputs(images)):
        if not isinstance(old, Attention):
            continue
        training = old.training
        with torch.no_grad():
            q, k, v = old.eval().heads(tokens, **options)
            old.train(training)
            grid = options.get("grid") if old.keeps_grid else None
            wanted = old.core(q, k, v, None, grid)
        core = modules[i].core
        if i in changed:
            n = max(FEWEST, FITTED_TOKENS // q.shape[-2])
            fit(core, q[:n], k[:n], v[:n], wanted[:n], grid)
        with torch.no_grad():
            error = float((core(q, k, v, None, grid) - wanted).float().norm() / wanted.float().norm().clamp(min=1e-12))
        rms = [float(t.float().square().mean().sqrt()) for t in (q, k)]
        out[i] = replace(out[i], q_rms=rms[0], k_rms=rms[1], error=error, warning=_warning(core, rms, error))
    return out


def _warning(core: Any, rms: Sequence[float], error: float) -> str | None:
    if error <= POOR:
        return None
    size = f"{error:.0%} off"
    if _estimates_softmax(core.config):
        return (
            f"{size}: random features cannot estimate softmax for q and k this large (rms {rms[0]:.2f} and {rms[1]:.2f}; 0.5 works); distil"
        )
    return f"{size}: distil or fine-tune before use"
