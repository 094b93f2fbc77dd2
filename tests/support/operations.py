"""A call of every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vixformer import ops
from vixformer.ops.affine import Affine
from vixformer.ops.convolution import Convolution
from vixformer.ops.feature_attention import FeatureAttention
from vixformer.ops.fourier import FourierMix
from vixformer.ops.fused import LinearAttention
from vixformer.ops.linformer import LinformerAttention
from vixformer.ops.nystrom import NystromAttention
from vixformer.ops.operation import Operation
from vixformer.ops.rotary import Rotate
from vixformer.ops.softmax import ExactAttention
from vixformer.ops.tokenwise import Gelu, LayerNorm

N = 20


def heads(n: int = N, width: int = 16) -> Tensor:
    """As they come out of a projection."""
    return torch.randn(2, n, 2, width).transpose(1, 2).requires_grad_()


def half_heads(n: int = N, width: int = 16) -> Tensor:
    return heads(n, width).detach().bfloat16().requires_grad_()


def learned(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def network() -> dict[str, Any]:
    return dict(first=learned(16, 16), bias=learned(16), second=learned(16, 16), shift=learned(16))


def factors() -> Tensor:
    return torch.rand(2, 16).add_(0.5).requires_grad_()


directions = torch.randn(24, 16)
grid = (4, 5)
angles = torch.randn(N, 8)

CALLS: dict[str, tuple[type[Operation], Callable[..., Tensor], Callable[[], tuple[Any, ...]]]] = {
    "relu": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.ReluMap(directions=directions, eps=1e-3)),
    ),
    "relu of many": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(200), heads(200), heads(200), ops.ReluMap(eps=1e-3), 0.1),
    ),
    "exp": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.ExpMap(directions=directions, scale=0.5, weight=0.125, eps=1e-4)),
    ),
    "network": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.NetworkMap(**network(), smooth=True)),
    ),
    "masked": (
        LinearAttention,
        ops.linear_attention,
        lambda: (
            heads(),
            heads(),
            heads(),
            ops.ReluMap(directions=directions, eps=1e-3),
            0.1,
            torch.arange(2 * N).view(2, N) % 3 > 0,
        ),
    ),
    "masked exp": (
        LinearAttention,
        ops.linear_attention,
        lambda: (
            heads(),
            heads(),
            heads(),
            ops.ExpMap(weight=0.1, eps=1e-3),
            0.0,
            torch.arange(2 * N).view(2, N) % 3 > 0,
        ),
    ),
    "elu": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.EluMap(directions=directions, alpha=0.5)),
    ),
    "gelu": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.GeluMap(directions=directions, eps=0.2)),
    ),
    "cosine": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.CosineMap())),
    "hedgehog": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.HedgehogMap(learned(2, 16, 16), learned(2, 16, 16))),
    ),
    "focused": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.FocusedMap(factors(), 3.0)),
    ),
    "learned directions": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.ReluMap(directions=learned(32, 16), scale=0.5, eps=1e-3)),
    ),
    "shares": (
        LinearAttention,
        ops.linear_attention,
        lambda: (heads(), heads(), heads(), ops.SharesMap(directions=learned(32, 16))),
    ),
    "taylor": (LinearAttention, ops.linear_attention, lambda: (heads(), heads(), heads(), ops.TaylorMap(scale=0.5))),
    "features": (FeatureAttention, ops.feature_attention, lambda: (heads().exp(), heads(7).exp(), heads(7, 24))),
    "odd features": (
        FeatureAttention,
        ops.feature_attention,
        lambda: (heads(120, 13).exp(), heads(97, 13).exp(), heads(97, 8), 0.1, 1e-3),
    ),
    "exact": (ExactAttention, ops.softmax_attention, lambda: (heads(), heads(), heads())),
    "exact in bfloat16": (ExactAttention, ops.softmax_attention, lambda: (half_heads(), half_heads(7), half_heads(7))),
    "relu in bfloat16": (
        LinearAttention,
        ops.linear_attention,
        lambda: (half_heads(100), half_heads(100), half_heads(100), ops.ReluMap(directions=directions, eps=1e-3)),
    ),
    "network in bfloat16": (
        LinearAttention,
        ops.linear_attention,
        lambda: (half_heads(), half_heads(), half_heads(), ops.NetworkMap(**network(), smooth=True)),
    ),
    "linformer in bfloat16": (
        LinformerAttention,
        ops.linformer_attention,
        lambda: (half_heads(), half_heads(), half_heads(), learned(N, 8), learned(N, 8)),
    ),
    "nystrom in bfloat16": (
        NystromAttention,
        ops.nystrom_attention,
        lambda: (*(half_heads() for _ in range(3)), 16, 3, learned(2, 3)),
    ),
    "convolution in bfloat16": (
        Convolution,
        ops.add_convolution,
        lambda: (half_heads(), half_heads(), learned(32, 1, 3, 3), None, grid),
    ),
    "rotation in bfloat16": (
        Rotate,
        ops.rotate,
        lambda: (half_heads(N, 24), torch.randn(N, 12).cos(), torch.randn(N, 12).sin()),
    ),
    "exact of few": (ExactAttention, ops.softmax_attention, lambda: (heads(), heads(7), heads(7))),
    "linformer": (
        LinformerAttention,
        ops.linformer_attention,
        lambda: (heads(), heads(), heads(), learned(N, 8), learned(N, 8)),
    ),
    "linformer by head": (
        LinformerAttention,
        ops.linformer_attention,
        lambda: (heads(7), heads(), heads(), learned(2, N, 8), learned(2, N, 8)),
    ),
    "nystrom": (NystromAttention, ops.nystrom_attention, lambda: (heads(), heads(), heads(), 16, 3, learned(2, 3))),
    "nystrom alone": (NystromAttention, ops.nystrom_attention, lambda: (heads(), heads(), heads(), 16, 3)),
    "convolution": (Convolution, ops.add_convolution, lambda: (heads(), heads(), learned(32, 1, 3, 3), None, grid)),
    "rotation": (Rotate, ops.rotate, lambda: (heads(), angles.cos(), angles.sin())),
    "fourier": (FourierMix, ops.fourier_mix, lambda: (learned(2, N, 6),)),
    "gelu alone": (Gelu, ops.gelu, lambda: (learned(5, 13200),)),
    "gelu in bfloat16": (Gelu, ops.gelu, lambda: (half_heads(1100, 32),)),
    "layer norm": (LayerNorm, ops.layer_norm, lambda: (learned(3, 700, 32), learned(32), learned(32), 1e-5)),
    "linear": (Affine, ops.linear, lambda: (learned(3, 70, 96), learned(80, 96), learned(80))),
    "linear without bias": (Affine, ops.linear, lambda: (learned(530, 16), learned(112, 16))),
    "linear in bfloat16": (
        Affine,
        ops.linear,
        lambda: tuple(
            x.detach().bfloat16().requires_grad_() for x in (learned(70, 640), learned(48, 640), learned(48))
        ),
    ),
    "linear of frozen weights": (Affine, ops.linear, lambda: (learned(2, 64, 64), torch.randn(64, 64), None)),
    "linear of an image": (Affine, ops.linear, lambda: (torch.randn(2, 64, 64), learned(64, 64), learned(64))),
}


def leaf(x: Any, trains: bool = True) -> Any:
    return x.detach().requires_grad_(trains and x.requires_grad) if isinstance(x, Tensor) else x
