"""What a kernel is: a function of the projected q or k that returns features whose products are the attention
weights."""

# B images  N tokens  H heads  K head width  M features

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar, Literal, Protocol

import torch
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from vixformer import ops
from vixformer.registry import Configured, Settings


class Asked(Protocol):
    """Options of the mechanism around a kernel."""

    @property
    def causal(self) -> bool: ...

    @property
    def features(self) -> int | str | None: ...


class Kernel(nn.Module, Configured, family="kernel"):
    """`forward(u, square, keys, mask)`: u (B, H, N, M) float32, a tensor that only the kernel holds, is W x for random
    directions W, or x.

    `square` is |x|^2 (B, H, N, 1) for kernels that set `uses_norm`; `keys` tells keys from queries, for stabilisers;
    `mask` (B, N) says which tokens count in them. Features are float32 or wider.
    """

    projects: ClassVar[Literal["always", "optional", "never"]] = "optional"
    """Whether u is a random projection: always, unless `features=none`, or never, because the kernel has a network of
    its own."""
    uses_norm: ClassVar[bool] = False
    estimates_softmax: ClassVar[bool] = False
    """Whether products of its features are, on average, those of exact attention. Not inherited."""
    one_each: ClassVar[bool] = False
    """Whether each feature is made of one direction alone, so that single features can be dropped. Not inherited."""
    floor: float | None = None
    """The least size of the normalizer, for features that may be negative."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Settings):
        owner: ClassVar[type[Kernel]]

        def check(self, performer: Asked) -> None:
            """Refuse options of the mechanism that this kernel cannot honour."""

    config: Config

    def __init__(self, config: Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__()
        self.config, self.head_dim, self.features, self.causal = config, head_dim, features, causal
        self.width = features

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        raise NotImplementedError

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        """The description of its features that operations know, with directions (M, K); None where there is none."""
        return None

    def macs(self) -> int:
        """Multiply-adds a token and head, beyond the random projection."""
        return 0


class PositiveKernel(Kernel):
    """A kernel whose features are kept above zero by a constant."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Kernel.Config):
        eps: NonNegativeFloat = 1e-3

        def refuse_eps(self, performer: Asked) -> None:
            """For kernels that measure eps against the largest feature of an image, which under a causal mask may be a
            future one."""
            default = next(field.default for field in fields(self) if field.name == "eps")
            if performer.causal and self.eps not in (0, default):
                raise ValueError("under causal=true this kernel has no eps: leave it out")

    form: ClassVar[type[ops.ReluMap] | type[ops.ExpMap] | None] = None
    """The formula of its features, if operations know it. Not inherited, because a subclass has another formula."""
    norm_weight: float = 0.0
    """What |x|^2 is multiplied by."""
    config: Config

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        form, eps = vars(type(self)).get("form"), self.config.eps
        if form is ops.ExpMap:
            return ops.ExpMap(directions=directions, scale=scale, eps=eps, weight=self.norm_weight * scale**2)
        return None if form is None else form(directions=directions, scale=scale, eps=eps)


class RawKernel(PositiveKernel):
    """A kernel whose function may be negative: it is made positive, or with `raw=true` used as it is.

    The normalizer of raw features may be negative or almost zero, so outputs may explode: the floor only prevents a
    division by zero.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(PositiveKernel.Config):
        raw: bool = False

    config: Config

    def __init__(self, config: Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        if config.raw:
            self.floor = torch.finfo(torch.float32).tiny
