"""Swap the attention of a trained model: keep every weight that has a counterpart, start the rest as close as can be,
and say how close."""

# B images  N tokens  H heads  K head width

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Mechanism, Mixer
from vixformer.attention.layout import Layer, parse, print_layer, print_layers
from vixformer.attention.performer import Performer
from vixformer.attention.project.one_kv import OneKeyValueHead
from vixformer.attention.project.projection import Attention, Mixing, mechanism_of
from vixformer.attention.softmax import Softmax
from vixformer.backbones.backbone import Backbone, BackboneConfig
from vixformer.bridges.theirs import Theirs, theirs
from vixformer.conversion.fit import Task, fit
from vixformer.data.loader import Loader
from vixformer.registry import checked

Model = TypeVar("Model", bound=Backbone)
Given = TypeVar("Given", bound=nn.Module)
MOST_FITTED = 64
"""Images that a conversion looks at: fitting holds the attention of all of them in memory."""
FITTED_TOKENS, FEWEST = 2**13, 8
"""What a layer is fitted to, so that it takes seconds: tokens, and the least number of images."""
POOR = 0.5
"""Relative error of a layer's output from which a warning is due."""
ONE_WAY = (
    "this model has one key-value head for all heads and keeps it: it can get any attention, but a model with a"
    " key-value head each cannot become one like it"
)
BIAS = "the learned bias on distances has no place in the new attention: back to softmax is not the model it was"


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
    """|new - exact| / |exact| of the core's output for the same q, k and v, on images that nothing was fitted to; with
    data."""
    change: float | None = None
    """|new - old| / |old|, the same where the old attention was exact."""
    warning: str | None = None


@dataclass(frozen=True)
class Change:
    attention: str
    layers: tuple[LayerReport, ...]
    notes: tuple[str, ...] = ()
    """What cannot be undone, or was not done."""

    @property
    def warnings(self) -> list[str]:
        return [f"layer {r.layer}: {r.warning}" for r in self.layers if r.warning]

    def __str__(self) -> str:
        lines = [f"to {self.attention}"]
        for r in self.layers:
            off = "" if r.error is None else f", {r.error:.0%} off, rms of q {r.q_rms:.2f} and of k {r.k_rms:.2f}"
            lines.append(
                f"layer {r.layer}: {r.before} -> {r.after}, {len(r.kept)} weights kept, new:"
                f" {', '.join(r.new) or 'none'}{off}"
            )
        return "\n".join(
            [*lines, *(f"warning: {text}" for text in self.warnings), *(f"note: {text}" for text in self.notes)]
        )


def convert(model: Given, attention: str, data: Tensor | None = None) -> tuple[Given, Change]:
    """A new model with another attention, and what became of the weights. `data` is a batch of images, normalized as in
    training. The model may be one of transformers, timm or your own (see `vix.patch`).

    Projections, head width, norms and everything around the attention stay as they are. With data, what a mechanism
    learns for itself is fitted to the layer's own attention, and the report says how far off each layer is.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"convert takes a model, a torch.nn.Module, not {type(model).__name__}")
    old: Any = theirs(model, data)
    new, change = swap(old, expanded(old, attention), data)
    made: Any = new.inner if isinstance(new, Theirs) else new
    return made, change


def expanded(model: Backbone, attention: str) -> list[Layer]:
    """One configuration a layer. A layer that is written as the model has it stays: random features, and LeViT's bias,
    are not new.

    A Performer that is to estimate softmax gets rows of one length, whose estimate is closer, unless the expression
    says `scaling`.
    """
    old = [mechanism_of(module).config for module in model.attentions()]
    if not old:
        raise ValueError(f"a {model.name} has no attention to convert: a vit, cct, cvt, levit, pit or convtoken has")
    layers = parse(attention).expand(*model.config.stage_depths)
    return [_meant(layer, before, "scaling" in attention) for layer, before in zip(layers, old, strict=True)]


def _meant(layer: Layer, before: Layer, says_scaling: bool) -> Layer:
    if isinstance(layer, Softmax.Config) and isinstance(before, Softmax.Config) and layer == Softmax.Config():
        return before
    if layer == before or says_scaling or not _estimates_softmax(layer):
        return layer
    return replace(layer, scaling="sqrt")


def differing(model: Backbone, layers: Sequence[Layer]) -> list[int]:
    """The layers that would change."""
    return [
        i
        for i, (module, layer) in enumerate(zip(model.attentions(), layers, strict=True))
        if mechanism_of(module).config != layer
    ]


def configurations(model: Backbone) -> list[Layer]:
    return [mechanism_of(module).config for module in model.attentions()]


def swap(
    model: Model,
    layers: Sequence[Layer],
    data: Tensor | None = None,
    *,
    into: Model | None = None,
    seed: int | None = None,
    known: Callable[[Mapping[int, nn.Module]], set[int]] | None = None,
) -> tuple[Model, Change]:
    """`convert`, with one configuration a layer.

    `into` is a model with these layers that gets the weights; left out, one is built. Random features of a layer depend
    on `seed` and its place alone, so that they are the same whichever other layers change. `known` puts weights that
    were fitted before into new cores, and says which of them need no fitting.
    """
    if data is not None:
        if not isinstance(data, Tensor):
            raise ValueError(
                f"data must be a tensor, a batch of images normalized as in training, not {type(data).__name__}"
            )
        model.check_images(data)
        if not len(data):
            raise ValueError("data has no images: give a batch, or leave it out")
        if not data.isfinite().all():
            raise ValueError("data has values that are not finite: give images normalized as in training")
    changed = check(model, layers)
    like = next(model.parameters())
    new = (_like(model, layers) if into is None else into).to(like.device, like.dtype)
    _carry_over(model, new, changed)
    old_cores = [mechanism_of(module) for module in model.attentions()]
    cores = [mechanism_of(module) for module in new.attentions()]
    taken = _shared(cores, changed)
    start = int(torch.randint(2**40, ())) if seed is None else seed
    for i in changed:
        if i not in taken:
            cores[i].draw(torch.Generator().manual_seed(start + i))
            cores[i].imitate()
            _copy_alike(old_cores[i], cores[i])
    new.train(model.training)
    pairs = zip(model.attentions(), new.attentions(), strict=True)
    reports = [_report(i, before, after, taken) for i, (before, after) in enumerate(pairs)]
    if data is not None:
        fresh = {i: cores[i] for i in changed if i not in taken}
        done = set() if known is None else known(fresh)
        reports = _measured(model, new, [i for i in fresh if i not in done], reports, data)
    notes: list[str] = []
    if changed and any(isinstance(module, OneKeyValueHead) for module in new.attentions()):
        notes.append(ONE_WAY)
    if any("distances" in report.dropped for report in reports):
        notes.append(BIAS)
    return new, Change(new.attention_expression(), tuple(reports), tuple(notes))


def _like(model: Model, layers: Sequence[Layer]) -> Model:
    made: Any = model.with_layers(layers) if isinstance(model, Theirs) else type(model)(config_with(model, layers))
    return made


def _estimates_softmax(layer: Layer) -> bool:
    kernel = layer.kernel if isinstance(layer, Performer.Config) else None
    return kernel is not None and vars(kernel.owner).get("estimates_softmax", False)


def check(model: Backbone, layers: Sequence[Layer]) -> list[int]:
    """The layers that would change; says why where one cannot."""
    changed = differing(model, layers)
    for i in changed:
        _check(i, mechanism_of(model.attentions()[i]), layers[i])
    return changed


def _check(i: int, old: Mechanism, layer: Layer) -> None:
    mixes = [kind.name for kind in (type(old), layer.owner) if issubclass(kind, Mixer)]
    if mixes:
        raise ValueError(
            f"layer {i} cannot go from {old.name} to {layer.owner.name}: {mixes[0]} has no q and k, and so nothing to"
            f" carry over. Write {old.name} for that layer to keep it; the others can become any mechanism with q and k"
        )


def config_with(model: Backbone, layers: Sequence[Layer]) -> BackboneConfig:
    """The configuration of a model like this one with these layers."""
    config = model.spelled_out()
    return checked(type(config), {**vars(config), "attention": print_layers(layers)}, "convert")


def fitted_on(loader: Loader) -> Tensor:
    """A few images, for a conversion to look at."""
    return torch.cat([images for images, _ in loader.spread(MOST_FITTED).plain()])


@torch.no_grad()
def _carry_over(model: Backbone, new: Backbone, changed: Sequence[int]) -> None:
    """Everything outside the mechanisms that change, and nothing may be left."""
    given, own = model.state_dict(), new.state_dict()
    outside = {name for name in own if not name.startswith(_inside(new, changed))}
    left = {name for name in given if not name.startswith(_inside(model, changed))} - outside
    for name in sorted(outside | left):
        if name not in given or name not in own or given[name].shape != own[name].shape:
            raise ValueError(f"{name} has no counterpart: the models are of different widths, or were built otherwise")
        own[name].copy_(given[name])


def _inside(model: Backbone, layers: Sequence[int]) -> tuple[str, ...]:
    cores = [mechanism_of(model.attentions()[i]) for i in layers]
    return tuple(name + "." for name, module in model.named_modules() if any(module is core for core in cores))


def _shared(cores: Sequence[nn.Module], changed: Sequence[int]) -> set[int]:
    """Changed layers whose weights a layer that stays has too: they were carried over with it."""
    staying = {id(p) for i, core in enumerate(cores) if i not in changed for p in core.parameters()}
    return {i for i in changed if any(id(p) in staying for p in cores[i].parameters())}


@torch.no_grad()
def _copy_alike(old: nn.Module, new: nn.Module) -> None:
    """Between mechanisms of one kind, what is of one shape; between Performers that differ in their number of features,
    the features."""
    if type(old) is type(new):
        given = dict(old.named_parameters())
        for name, p in new.named_parameters():
            if name in given and given[name].shape == p.shape:
                p.copy_(given[name])
    if (
        isinstance(old, Performer)
        and isinstance(new, Performer)
        and old.config == replace(new.config, features=old.config.features)
    ):
        for mine, theirs in ((new.projection, old.projection), (new.bias, old.bias)):
            if mine is not None and theirs is not None:
                rows = min(len(mine), len(theirs))
                mine[:rows] = theirs[:rows]


def _report(i: int, old: Attention | Mixing, new: Attention | Mixing, taken: set[int]) -> LayerReport:
    before, after = mechanism_of(old), mechanism_of(new)
    given = {name: p.shape for name, p in before.named_parameters()}
    own = {name: p.shape for name, p in after.named_parameters()}
    same = before.config == after.config or i in taken
    alike = {name for name in own if same or (type(before) is type(after) and given.get(name) == own[name])}
    around = {name for name, _ in new.named_parameters() if not name.startswith(("core.", "mixer."))}
    inside = "mixer." if isinstance(new, Mixing) else "core."
    return LayerReport(
        i, print_layer(before.config), print_layer(after.config),
        tuple(sorted(around | {inside + name for name in alike})),
        tuple(sorted(own.keys() - alike)), tuple(sorted(given.keys() - alike)),
    )  # fmt: skip


def _measured(
    model: Backbone, new: Backbone, fresh: Sequence[int], reports: list[LayerReport], images: Tensor
) -> list[LayerReport]:
    """Every layer sees what it sees in the old model, so that errors do not add up. Every other image is fitted to, the
    rest measure."""
    tasks = {i: task for i, task in enumerate(_tasks(model, new, images)) if task is not None}
    groups: dict[tuple[int, ...], list[Task]] = {}  # layers that share weights are fitted together
    for i in fresh:
        if i in tasks:
            task, few = tasks[i], max(FEWEST, FITTED_TOKENS // tasks[i].q.shape[-2])
            shared = tuple(sorted(id(p) for p in task.core.parameters()))
            groups.setdefault(shared, []).append(task.part(slice(0, None, 2)).part(slice(0, few)))
    for group in groups.values():
        fit(group)
    out = list(reports)
    for i, task in tasks.items():
        judged = task.part(slice(1, None, 2)) if len(images) > 1 else task
        rms = [float(t.float().square().mean().sqrt()) for t in (task.q, task.k)]
        error, change = judged.against_exact().error(), judged.error()
        warning = _warning(task.core, rms, error, change)
        out[i] = replace(out[i], q_rms=rms[0], k_rms=rms[1], error=error, change=change, warning=warning)
    return out


@torch.no_grad()
def _tasks(model: Backbone, new: Backbone, images: Tensor) -> list[Task | None]:
    """What every layer of the new model should give out for what its old one gets; None where there is no q and k."""
    tasks: list[Task | None] = []
    for (old, tokens, options), module in zip(model.attention_inputs(images), new.attentions(), strict=True):
        if isinstance(old, Mixing) or isinstance(module, Mixing):
            tasks.append(None)
            continue
        training = old.training
        q, k, v = old.eval().heads(tokens, **options)
        old.train(training)
        grid = old.grid_of(options)
        wanted = old.core(q, k, v, None, grid)
        exact = wanted if isinstance(old.core, Softmax) else ops.softmax_attention(q, k, v)
        tasks.append(Task(module.core, q, k, v, wanted, exact, grid))
    return tasks


def _warning(core: Mechanism, rms: Sequence[float], error: float, change: float) -> str | None:
    if error > POOR and _estimates_softmax(core.config):
        sizes = f"(rms {rms[0]:.2f} and {rms[1]:.2f}; 0.5 works)"
        return (
            f"{error:.0%} off: random features cannot estimate softmax for q and k this large {sizes}; teach or"
            " fine-tune before use"
        )
    if change > POOR and not isinstance(core, Softmax):  # exact attention is what others are held against
        return f"{change:.0%} off what it replaces: teach or fine-tune before use"
    return None
