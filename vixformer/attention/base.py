"""What every way of mixing tokens has in common. Cores work on q, k and v; mixers on the tokens themselves."""

# B images  N tokens  D width  H heads  K head width

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from vixformer.attention.inputs import check_heads, check_tokens
from vixformer.ops import Grid
from vixformer.registry import Configured, Settings


@dataclass(frozen=True)
class Shape:
    """What a mechanism is built for. `num_tokens` may be unknown to mechanisms that do not need it."""

    dim: int
    num_heads: int
    head_dim: int
    num_tokens: int | None = None
    grid: Grid | None = None
    """The places that the tokens of an image lie on, for mechanisms that learn something for each."""
    num_keys: int | None = None
    """Keys, where they are fewer than the tokens."""
    value_dim: int | None = None
    """Width of the values of a head, where it is not that of queries and keys; see `values`."""
    shared: dict[Hashable, nn.Parameter] = field(default_factory=dict, compare=False, repr=False)
    """Weights that the layers of one model have in common, by key (Linformer's `share=layerwise`)."""

    @property
    def values(self) -> int:
        """Width of the values of a head."""
        return self.value_dim or self.head_dim

    def tokens_for(self, who: str) -> int:
        if self.num_tokens is None:
            raise ValueError(f"{who} is built for a number of tokens: pass num_tokens=")
        return self.num_tokens

    def keys_for(self, who: str) -> int:
        return self.num_keys or self.tokens_for(who)


class Mechanism(nn.Module, Configured, family="attention"):
    """A word of the language of layouts."""

    mask: ClassVar[Literal["exact", "hidden", "refused"]] = "hidden"
    """What a mask does: a masked tail gives what the shorter input gives; masked tokens change nothing; or it is
    refused."""
    uses_grid: bool = False
    """Whether the shape of the image matters to it."""
    by_formula: ClassVar[bool] = False
    """Whether torch's counter cannot see its multiply-adds, so that what it declares is all there is."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Settings):
        owner: ClassVar[type[Mechanism]]

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__()
        self.config, self.shape = config, shape

    def macs(self, n: int) -> int:
        """Multiply-adds for one image of `n` tokens, without the q, k, v and output projections."""
        raise NotImplementedError

    def imitate(self) -> None:
        """Start what it learns as close to exact attention as can be without data: conversion of a trained model asks
        for it."""

    def draw(self, generator: torch.Generator | None = None) -> None:
        """Draw the directions of its features, learned ones too: for one that is new."""

    def redraw(self, generator: torch.Generator | None = None) -> bool:
        """Draw anew what stays random in it; whether there is anything."""
        return False

    def shrink(self, rate: float) -> None:
        """Called after an optimizer step at this learning rate: move the parts that it may learn to drop towards
        zero."""

    def reduced(self) -> tuple[Config, dict[str, Tensor]] | None:
        """Configuration and state without the parts that it learned to drop; None if it dropped none."""
        return None

    def extra_repr(self) -> str:
        return repr(self.config)


class Core(Mechanism):
    """A function of q, k, v, each (B, H, N, K), that returns (B, H, N, K) in the dtype of v.

    `grid` is the (height, width) of the tokens that lie on one; tokens in front of them (class tokens) are N - height *
    width.
    """

    @property
    def square(self) -> bool:
        """Whether it needs as many keys as queries."""
        return getattr(self.config, "causal", False)

    def __call__(self, *args: Any, **options: Any) -> Tensor:
        check_heads(self, *args, **options)
        return super().__call__(*args, **options)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        raise NotImplementedError

    def reference(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
    ) -> Tensor:
        """The slow and obvious form of `forward`."""
        raise NotImplementedError

    def looking(self, q: Tensor, k: Tensor, mask: Tensor | None, grid: Grid | None) -> tuple[Tensor, Tensor]:
        """q and k as they meet, for cores in which they see the grid before that."""
        return q, k

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, H, N, N): how much each token (row) takes from each other one. Quadratic, so for small N."""
        raise NotImplementedError


class Mixer(Mechanism):
    """A function of tokens (B, N, D) with neither q nor k; it has no attention map and refuses masks.

    One with `uses_grid` also gets the grid that the tokens lie on.
    """

    mask = "refused"

    def __call__(self, x: Tensor, *grid: Grid | None) -> Tensor:
        check_tokens(x, self.shape.dim)
        return super().__call__(x, *grid)

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def reference(self, x: Tensor) -> Tensor:
        """The slow and obvious form of `forward`."""
        raise NotImplementedError


def redraw(model: nn.Module, generator: torch.Generator | None = None) -> int:
    """New random features for every layer of a model that has them, in order; returns how many. Training state, so the
    loop calls it."""
    return sum(module.redraw(generator) for module in model.modules() if isinstance(module, Mechanism))


def shrink(model: nn.Module, rate: float) -> None:
    """Call `shrink` of every mechanism of a model. The training loop does this after each optimizer step."""
    for module in model.modules():
        if isinstance(module, Mechanism):
            module.shrink(rate)
