"""Build models and attention modules by name."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from torch import nn

from vixformer.attention.base import Mechanism, Shape
from vixformer.attention.layout import parse
from vixformer.attention.projection import ProjectionOptions, build_attention
from vixformer.backbones.base import Backbone, from_pretrained
from vixformer.registry import checked, pick

__all__ = ["create_attention", "create_model", "from_pretrained", "list_attentions", "list_models", "model_config"]


def list_models(pattern: str = "*") -> list[str]:
    """Names that `create_model` knows: backbones, and published sizes of them."""
    return [name for name in sorted(_models()) if fnmatch(name, pattern)]


def list_attentions() -> list[str]:
    """Words of the language of layouts."""
    return sorted(Mechanism.members)


def model_config(name: str, **options: Any) -> Any:
    """The checked configuration of a model: its backbone's `Config`, whose `owner` builds it."""
    backbone, size = pick(_models(), name, "model")
    return checked(backbone.Config, {**size, **options}, name)


def create_model(name: str, **options: Any) -> Any:
    """A model with fresh weights, e.g. `create_model("vit", attention="first(performer)", img_size=32, embed_dim=128)`."""
    config = model_config(name, **options)
    return config.owner(config)


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
    if min(dim, num_heads, head_dim or 1, num_tokens or 1) < 1:
        raise ValueError("dim, num_heads, head_dim and num_tokens must be at least 1")
    if head_dim is None and dim % num_heads:
        raise ValueError(f"num_heads must divide dim: {num_heads} does not divide {dim}; choose another, or give head_dim")
    (layer,) = parse(attention).expand(1)
    return build_attention(
        layer, Shape(dim, num_heads, head_dim or dim // num_heads, num_tokens), proj, ProjectionOptions(qkv_bias, out_bias)
    )


def _models() -> dict[str, tuple[type[Any], dict[str, Any]]]:
    backbones = Backbone.members.values()
    plain = {backbone.name: (backbone, {}) for backbone in backbones}
    return plain | {name: (backbone, size) for backbone in backbones for name, size in backbone.variants.items()}
