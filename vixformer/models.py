"""Build models and attention modules by name, here and by the `create_model` of timm."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from pydantic import PositiveInt
from torch import nn

from vixformer.attention.base import Mechanism, Shape
from vixformer.attention.layout import Pattern, parse
from vixformer.attention.project.projection import build_attention, projection
from vixformer.backbones.backbone import Backbone, BackboneConfig, build, from_pretrained
from vixformer.bridges import source
from vixformer.jsonfile import Values
from vixformer.registry import checked, pick

__all__ = [
    "create_attention",
    "create_model",
    "from_pretrained",
    "list_attentions",
    "list_models",
    "model_config",
    "register_timm",
]


def list_models(pattern: str = "*") -> list[str]:
    """Names that `create_model` knows: backbones, and published sizes of them."""
    return [name for name in sorted(_models()) if fnmatch(name, pattern)]


def list_attentions() -> list[str]:
    """Words of the language of layouts."""
    return sorted(Mechanism.members)


def model_config(name: str, **options: Any) -> BackboneConfig:
    """The checked configuration of a model: its backbone's `Config`, whose `owner` builds it."""
    backbone, size = pick(_models(), name, "model")
    return checked(backbone.Config, {**size, **options}, name)


def create_model(name: str, **options: Any) -> Any:
    """A model with fresh weights, e.g. `create_model("vit", attention="first(performer)", img_size=32,
    embed_dim=128)`; `timm:NAME` is a model of timm, `hf:FOLDER` one of transformers, whose config.json is there."""
    if source.is_source(name):
        return source.create(name, **options)
    return build(model_config(name, **options))


@dataclass(frozen=True, kw_only=True)
class _Layer:
    dim: PositiveInt
    num_heads: PositiveInt
    num_tokens: PositiveInt | None
    head_dim: PositiveInt | None
    proj: str
    qkv_bias: bool
    out_bias: bool


def create_attention(
    attention: str,
    *,
    dim: int,
    num_heads: int,
    num_tokens: int | None = None,
    head_dim: int | None = None,
    proj: str = "linear",
    qkv_bias: bool = True,
    out_bias: bool = True,
) -> nn.Module:
    """One attention layer, called as `a(x_BND, mask=None, grid=None)`."""
    values = dict(
        dim=dim,
        num_heads=num_heads,
        num_tokens=num_tokens,
        head_dim=head_dim,
        proj=proj,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
    )
    options = checked(_Layer, values, "create_attention")
    if head_dim is None and dim % num_heads:
        raise ValueError(
            f"num_heads must divide dim: {num_heads} does not divide {dim}; choose another, or give head_dim"
        )
    layout = parse(attention)
    layers = layout.stages[0].layers if isinstance(layout.stages[0], Pattern) else ()
    if len(layout.stages) > 1 or len(layers) != 1:
        raise ValueError(f'one layer takes one attention, such as performer(features=64), not the layout "{layout}"')
    shape = Shape(options.dim, options.num_heads, options.head_dim or dim // num_heads, options.num_tokens)
    return build_attention(
        layers[0], shape, projection(options.proj, qkv_bias=options.qkv_bias, out_bias=options.out_bias)
    )


def _models() -> dict[str, tuple[type[Any], Values]]:
    backbones = Backbone.members.values()
    plain = {backbone.name: (backbone, {}) for backbone in backbones}
    return plain | {name: (backbone, size) for backbone in backbones for name, size in backbone.variants.items()}


PREFIX = "vixformer_"


def register_timm() -> list[str]:
    """Make our models known to timm: `timm.create_model("vixformer_vit_tiny", attention="first(performer)")`. Returns
    their names."""
    try:
        register_model = importlib.import_module("timm.models").register_model
        return [register_model(_entry(name)).__name__ for name in list_models()]
    except Exception as error:  # timm imports much, and a broken one raises anything
        raise ValueError(f"timm cannot be imported here: {error}") from None


def _entry(name: str) -> Any:
    def create(pretrained: bool = False, **options: Any) -> Any:
        if pretrained:
            raise ValueError("these models have no pretrained weights in timm: vix.from_pretrained reads ours")
        theirs = ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir", "scriptable", "exportable", "no_jit")
        given = {key: value for key, value in options.items() if key not in theirs}
        if not given.pop("features_only", False):
            return create_model(name, **given)
        features: Any = importlib.import_module("timm.models._features")
        chosen = {key: given.pop(key) for key in ("out_indices", "output_fmt") if key in given}
        model = create_model(name, **given)
        return features.FeatureGetterNet(model, **{"out_indices": tuple(range(len(model.feature_info))), **chosen})

    create.__name__ = PREFIX + name.replace("-", "_")
    create.__doc__ = f'`create_model("{name}")` of vixformer.'
    return create
