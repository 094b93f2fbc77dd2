"""Every mechanism and kernel there is, so that a new one is tested by existing; and the variants worth a test of their
own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from vixformer import create_attention
from vixformer.attention.base import Core, Mechanism
from vixformer.attention.kernels.kernel import Kernel
from vixformer.attention.project.projection import Attention

DIM, HEADS = 32, 2
WORDS = sorted(Mechanism.members)
KERNELS = [
    "performer(kernel=taylor)",
    *(f"performer(kernel={name}, features=24)" for name in sorted(Kernel.members) if name != "taylor"),
]
PLAIN = [
    f"performer(kernel={name}, features=none)" for name, k in sorted(Kernel.members.items()) if k.projects == "optional"
]
VARIANTS = [
    "performer(kernel=relu, features=24, scale=half, bias=true, eps=1e-6, total_eps=1e-6)",
    "performer(kernel=softmax, features=24, scaling=sqrt, eps=0)",
    "performer(kernel=exp, features=24, clamp=10)",
    "performer(kernel=exp, features=24, clamp=4, clamp_min=-2)",
    "performer(kernel=exp, features=24, clamp=dynamic)",
    "performer(kernel=elu, features=24, alpha=0.25)",
    "performer(kernel=relu, features=24, learned=true, conv=3)",
    "performer(kernel=exp, features=none, norm=true)",
    "performer(kernel=relu, features=24, scaling=iid)",
    "performer(kernel=relu, features=24, gate=0.01)",
    "performer(kernel=relu, features=24, local_heads=1, window=8)",
    "performer(kernel=matrix, features=24, norm=true, local_heads=1, window=40)",
    "linformer(rank=8, share=none)",
    "linformer(rank=8, share=kv)",
    "linformer(rank=8, share=layerwise)",
    "nystrom(landmarks=16)",
    "nystrom(landmarks=7, conv=none)",
    "focused(conv=none)",
    "lens(conv=none)",
    "lens(power=2)",
    "lens(look=conv)",
    "lens(look=graph, conv=none)",
    "lens(norm=true)",
    "lens(learn=power, power=2)",
    "lens(learn=gate)",
    "prism(conv=none)",
    "prism(end=relu)",
    "prism(start=orthogonal)",
    "prism(start=plain)",
    "prism(end=elu, conv=none)",
    "hedgehog(conv=3)",
    "softmax(conv=3)",
    "softmax(drop=0.3)",
    "softmax(naive=true)",
    "fourier(grid=true)",
    "mlp(hidden=20)",
]
ALL = [*WORDS, *KERNELS, *PLAIN, *VARIANTS]


def is_core(attention: str) -> bool:
    return issubclass(Mechanism.members[attention.partition("(")[0]], Core)


def word(attention: str) -> str:
    return attention.partition("(")[0]


CORES = [a for a in ALL if is_core(a)]
MIXERS = [a for a in ALL if not is_core(a)]


def has_option(attention: str, name: str) -> bool:
    return any(field.name == name for field in dataclasses.fields(Mechanism.members[word(attention)].Config))


def convolves(attention: str) -> bool:
    """Whether a bare word has a convolution of v beside it."""
    return attention in WORDS and any(
        field.name == "conv" and field.default is not None
        for field in dataclasses.fields(Mechanism.members[word(attention)].Config)
    )


def causal(attention: str) -> str:
    attention = f"{attention}(conv=none)" if convolves(attention) else attention
    return f"{attention[:-1]}, causal=true)" if "(" in attention else f"{attention}(causal=true)"


def slow_unless(kept: bool, *values: Any) -> Any:
    """A case for every run where it is one of those kept, and otherwise for `make test-slow`."""
    return pytest.param(*values, marks=() if kept else pytest.mark.slow)


def with_lengths(attentions: Iterable[str], every: Iterable[int], few: Iterable[int]) -> list[Any]:
    """Every word at every length; kernels and variants at few; the rest in the slow run."""
    return [slow_unless(a in WORDS or n in few, a, n) for a in attentions for n in every]


LOCAL = [a for a in VARIANTS if "local_heads" in a]
CAUSAL = [causal(a) for a in (*WORDS, *KERNELS, *LOCAL) if has_option(a, "causal")]


def options_for(module: Any, n: int) -> dict[str, Any]:
    """The grid that a mechanism with a use for one gets."""
    return {"grid": (1, n)} if mechanism_of(module).uses_grid else {}


def build(attention: str, n: int, dim: int = DIM, heads: int = HEADS) -> torch.nn.Module:
    return create_attention(attention, dim=dim, num_heads=heads, num_tokens=n).eval()


def core_of(module: torch.nn.Module) -> Core:
    assert isinstance(module, Attention)
    return module.core


def mechanism_of(module: torch.nn.Module) -> Any:
    return module.core if isinstance(module, Attention) else module.mixer


def distance(a: Tensor, b: Tensor) -> float:
    """Largest difference, relative to the size of b where that is above one."""
    return ((a - b).abs().max() / b.abs().max().clamp(min=1.0)).item()
