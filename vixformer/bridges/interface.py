"""The attention interface of transformers: a function that its models call with the module that asks."""

# B images  H heads  N tokens  K head width

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from vixformer.attention.base import Core, Mechanism, Shape
from vixformer.attention.kernels.kernel import Kernel
from vixformer.attention.layout import Layer, Pattern, parse
from vixformer.bridges.attend import attend
from vixformer.bridges.seam import Patched
from vixformer.bridges.untyped import Foreign
from vixformer.jsonfile import Values

NAME = "vix"
"""Of the interface, for patched models; `vix:EXPRESSION` is one mechanism without weights for all layers."""


class AsksInterface(Patched):
    """One of transformers; its `forward` calls `_answer` with itself."""


_watchers: list[Callable[..., None]] = []


def register_transformers(*attentions: str) -> list[str]:
    """Make attention without weights known to transformers by name: `attn_implementation="vix:softmax"`. Returns the
    names.

    Those of every such mechanism are known, and the `attentions` given here. Importing vixformer after transformers
    calls this.
    """
    try:
        modeling = importlib.import_module("transformers.modeling_utils")
        masking = importlib.import_module("transformers.masking_utils")
    except Exception as error:  # transformers imports much, and a broken one raises anything
        raise ValueError(f"transformers cannot be imported here: {error}") from None
    given = {f"{NAME}:{text}": one_without_weights(text) for text in (*_known(), *attentions)}
    answers = {NAME: _answer, **{name: functools.partial(_by_name, layer) for name, layer in given.items()}}
    for name, answer in answers.items():
        modeling.AttentionInterface.register(name, answer)
        masking.AttentionMaskInterface.register(name, masking.sdpa_mask)
    return list(given)


def is_transformers(model: nn.Module) -> bool:
    modeling: Foreign = sys.modules.get("transformers.modeling_utils")
    return modeling is not None and isinstance(model, modeling.PreTrainedModel)


def one_without_weights(text: str) -> Layer:
    """The layer that an expression names, if it has nothing to store."""
    stages = parse(text).stages
    layers = stages[0].layers if len(stages) == 1 and isinstance(stages[0], Pattern) else ()
    if len(layers) != 1:
        raise ValueError(f'one attention for all layers is needed, such as softmax, not the layout "{text}"')
    if not issubclass(layers[0].owner, Core):
        raise ValueError(f"{layers[0].owner.name} has neither q nor k: use a mechanism that has them")
    if stored := _stored(layers[0]):
        raise ValueError(
            f"{text} has {stored} to store, and a function has no place for them: use vix.patch(model, {text!r}), or"
            " an attention without weights, such as performer(kernel=relu, features=none)"
        )
    return layers[0]


@functools.cache
def _stored(layer: Layer) -> str:
    core = layer.owner(layer, Shape(64, 4, 16, 17, (4, 4)))
    names = [name for name, _ in (*core.named_parameters(), *core.named_buffers())]
    return ", ".join(names[:3]) + (" ..." if names[3:] else "")


@functools.cache
def _known() -> tuple[str, ...]:
    """Every mechanism with its usual options, and every kernel without random features, that has no weights."""
    performers = [f"performer(kernel={name}, features=none)" for name in sorted(Kernel.members)]
    known = []
    for text in (*sorted(Mechanism.members), *performers):
        try:
            one_without_weights(text)
        except ValueError:
            continue
        known.append(text)
    return tuple(known)


@functools.cache
def weightless(layer: Layer, heads: int, width: int, values: int) -> Core:
    core = layer.owner(layer, Shape(heads * width, heads, width, value_dim=values)).eval()
    assert isinstance(core, Core)
    return core


def _by_name(
    layer: Layer,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Foreign,
    **options: Foreign,
) -> tuple[Tensor, None]:
    core = weightless(layer, query.shape[1], query.shape[3], value.shape[3])
    out = attend(core, **_words(module, query, key, value, attention_mask, **options))
    return out.transpose(1, 2).contiguous(), None


def _answer(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Foreign, **options: Foreign
) -> tuple[Tensor, Tensor | None]:
    if not isinstance(module, Patched):  # it stays as it is
        given = _words(module, query, key, value, attention_mask, **{**options, "output_attentions": False})
        for watch in _watchers:
            watch(AsksInterface, module, **given)
        sdpa: Foreign = sys.modules["transformers.modeling_utils"].sdpa_attention_forward
        return sdpa(module, query, key, value, attention_mask, **options)
    out = module.asked(**_words(module, query, key, value, attention_mask, **options))
    return out.transpose(1, 2).contiguous(), None


def _words(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Foreign,
) -> Values:
    if options.get("output_attentions"):
        raise ValueError(
            "this attention computes no attention weights to return: leave output_attentions out, or ask the cores for"
            " small images (attention_map)"
        )
    if options.get("position_bias") is not None or options.get("softcap") is not None:
        raise ValueError(
            f"{type(module).__name__} adds a bias to the scores of its attention or bounds them, and other mechanisms"
            ' have no scores: use attn_implementation="sdpa"'
        )
    causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    causal = bool(causal) and attention_mask is None and query.shape[2] > 1
    return dict(q=query, k=key, v=value, mask=attention_mask, dropout=dropout, causal=causal, scale=scaling)


@contextmanager
def watched(model: Foreign, watch: Callable[..., None]) -> Iterator[None]:
    """While a model of transformers runs: every module that asks the interface is given to `watch`."""
    if not is_transformers(model):
        yield
        return
    register_transformers()
    before = implementations(model)
    model.set_attn_implementation(NAME)
    _watchers.append(watch)
    try:
        yield
    finally:
        _watchers.remove(watch)
        for config, name in before:
            config._attn_implementation_internal = name


def implementations(model: nn.Module) -> list[tuple[Foreign, Foreign]]:
    """The configurations in a model, and the attention that each asks for."""
    configs = {id(c): c for c in (getattr(module, "config", None) for module in model.modules()) if c is not None}
    found = [*configs.values()]
    return [(c, c._attn_implementation_internal) for c in found if hasattr(c, "_attn_implementation_internal")]
