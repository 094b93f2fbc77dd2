"""Activations between layers, by name and options: `relu`, `elu(0.25)`, `elu(alpha=0.25)`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields
from typing import ClassVar

from pydantic import PositiveFloat
from torch import Tensor, nn

from vixformer.expressions import options_of, parsed
from vixformer.ops import gelu
from vixformer.registry import Configured, Settings, checked


class Activation(Configured, family="activation"):
    """`module` is the layer in torch; the fields of `Config` are the arguments of that layer."""

    module: type[nn.Module]

    @dataclass(frozen=True, kw_only=True)
    class Config(Settings):
        owner: ClassVar[type[Activation]]


class _GELU(nn.GELU):
    def forward(self, input: Tensor) -> Tensor:
        return gelu(input)


class GELU(Activation, name="gelu"):
    module = _GELU


class ReLU(Activation, name="relu"):
    module = nn.ReLU


class ELU(Activation, name="elu"):
    module = nn.ELU

    @dataclass(frozen=True, kw_only=True)
    class Config(Activation.Config):
        alpha: PositiveFloat = 1.0
        """Large negative inputs become minus alpha."""


class SiLU(Activation, name="silu"):
    module = nn.SiLU


class Hardswish(Activation, name="hardswish"):
    module = nn.Hardswish


def activation(text: str) -> nn.Module:
    node = parsed(text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _made(node.func.id, node)
    return _made(text, None)


def _made(word: str, call: ast.Call | None) -> nn.Module:
    config = Activation.member(word).Config
    values = {} if call is None else options_of(call, word, [field.name for field in fields(config)])
    made = checked(config, values, word)
    return made.owner.module(**vars(made))
