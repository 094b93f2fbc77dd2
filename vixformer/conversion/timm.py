"""Beside timm: our models by its `create_model`, and our attention in its vision transformers."""
# B images  N tokens  H heads  K head width

from __future__ import annotations

import importlib
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from vixformer.attention.base import Core, Mixer, Shape
from vixformer.attention.layout import parse
from vixformer.attention.project.projection import full_precision
from vixformer.models import create_model, list_models

PREFIX = "vixformer_"


def patch(model: nn.Module, attention: str) -> nn.Module:
    """Other attention in a vision transformer of timm, in place; returns the model. `attention` is a layout over its blocks.

    Weights stay, under their names; what a mechanism learns for itself is new, under `core`, as close to exact attention as can be.
    """
    found = [(parent, name, child) for parent in model.modules() for name, child in parent.named_children() if _is_attention(child)]
    if not found:
        raise ValueError(f"{type(model).__name__} has no attention with qkv, proj and num_heads, as timm's ViT and DeiT have it")
    dropped = next((child for _, _, child in found if getattr(getattr(child, "attn_drop", None), "p", 0.0)), None)
    if dropped is not None:
        raise ValueError(
            "this model drops attention weights (attn_drop_rate), which other attention does not have: make it with attn_drop_rate=0"
        )
    takes = {name for _, _, child in found for name in signature(child.forward).parameters} - {"x", "attn_mask", "is_causal"}
    if takes:
        raise ValueError(f"the attention of {type(model).__name__} takes {', '.join(sorted(takes))} too, which ours would leave out")
    grid: Any = getattr(getattr(model, "patch_embed", None), "grid_size", None)
    front = getattr(model, "num_prefix_tokens", 0)
    layers = parse(attention).expand(len(found))
    cores = [_core(layer, child, grid, front) for layer, (_, _, child) in zip(layers, found, strict=True)]
    for core, (parent, name, child) in zip(cores, found, strict=True):
        setattr(parent, name, Patched(child, core, grid, front).train(child.training))
    return model


def _is_attention(module: nn.Module) -> bool:
    return all(hasattr(module, name) for name in ("qkv", "proj", "num_heads", "head_dim"))


def _core(layer: Any, module: Any, grid: tuple[int, int] | None, front: int) -> Core:
    if issubclass(layer.owner, Mixer):
        raise ValueError(f"{layer.owner.name} has neither q nor k, and timm's layers have both: use a mechanism that has them")
    tokens = None if grid is None else front + grid[0] * grid[1]
    like = module.qkv.weight
    core = layer.owner(layer, Shape(like.shape[1], module.num_heads, module.head_dim, tokens, grid)).to(like.device, like.dtype)
    core.imitate()
    return core


def _optional(module: nn.Module, name: str) -> nn.Module | None:
    return getattr(module, name, None)


class Patched(nn.Module):
    """timm's attention with another core: everything around it is timm's."""

    def __init__(self, module: Any, core: Core, grid: tuple[int, int] | None, front: int) -> None:
        super().__init__()
        self.qkv: nn.Module = module.qkv
        self.q_norm, self.k_norm, self.norm, self.gate = (_optional(module, name) for name in ("q_norm", "k_norm", "norm", "gate"))
        self.proj: nn.Module = module.proj
        self.proj_drop = _optional(module, "proj_drop")
        self.num_heads, self.head_dim = module.num_heads, module.head_dim
        self.core, self.grid, self.front = core, grid, front

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if attn_mask is not None or is_causal:
            raise ValueError("patched attention takes no mask: leave attn_mask and is_causal out")
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, self.head_dim)).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = (t if norm is None else norm(t) for t, norm in ((q, self.q_norm), (k, self.k_norm)))
        if self.grid is not None and self.core.uses_grid and x.shape[1] != self.front + self.grid[0] * self.grid[1]:
            raise ValueError(
                f"{self.core.name} was put into a model for a grid of {self.grid[0]} x {self.grid[1]} and got {x.shape[1] - self.front} "
                "tokens: make the model for that image size, or use a mechanism without a convolution"
            )
        with full_precision(x):
            out = self.core(q, k, v, None, self.grid if self.core.uses_grid else None)
        out = out.transpose(1, 2).flatten(2)
        out = out if self.norm is None else self.norm(out)
        out = out if self.gate is None else out * torch.sigmoid(self.gate(x))
        out = self.proj(out)
        return out if self.proj_drop is None else self.proj_drop(out)


def register_timm() -> list[str]:
    """Make our models known to timm: `timm.create_model("vixformer_vit_tiny", attention="first(performer)")`. Returns their names."""
    try:
        register_model = importlib.import_module("timm.models").register_model
        return [register_model(_entry(name)).__name__ for name in list_models()]
    except Exception as error:  # timm imports much, and a broken one raises anything
        raise ValueError(f"timm cannot be imported here: {error}") from None


def _entry(name: str) -> Any:
    def create(pretrained: bool = False, **options: Any) -> Any:
        if pretrained:
            raise ValueError("these models have no pretrained weights in timm: vix.from_pretrained reads ours")
        theirs = ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir")
        return create_model(name, **{key: value for key, value in options.items() if key not in theirs})

    create.__name__ = PREFIX + name.replace("-", "_")
    create.__doc__ = f'`create_model("{name}")` of vixformer.'
    return create
