"""Performer: linear attention over random or deterministic features of a registered kernel (arXiv:2009.14794)."""

# N tokens  H heads  K head width  M features

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Shape
from vixformer.attention.kernels.favor import SoftmaxKernel
from vixformer.attention.kernels.kernel import Kernel
from vixformer.attention.linear_core import LinearCore

WINDOW = 256
"""Tokens, in "Vision Xformers"."""


class Performer(LinearCore, name="performer"):
    """`features` is the number M of random directions: left out, int(K ln K); `none`, the kernel works on q and k
    themselves (M = K).

    `scaling` sets the norms of the directions: chi-distributed, or all sqrt K; `iid` draws independent rows, not
    orthogonal ones. `scale` sets what q and k are multiplied by: K^-1/4 or K^-1/2. `bias` adds a random constant to
    each projection, and `total_eps` one to the normalizer. `learned` makes the directions weights, random at first and
    never drawn again. `norm` brings q and k to one length, a temperature that each head learns, sqrt K at first.
    The last `local_heads` use exact attention to the tokens of their segment of `window` tokens and of the segments
    beside it.

    `gate` learns how many features there are. Each feature has a weight, 1 at first, which every optimizer step moves
    towards zero by this number times the learning rate (the proximal step of an L1 penalty). The largest weight is held
    at 1. Features whose weight is zero are removed after training.
    """

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        kernel: Kernel.Config = field(default_factory=SoftmaxKernel.Config)
        features: PositiveInt | Literal["auto"] | None = "auto"
        scaling: Literal["chi", "sqrt", "iid"] = "chi"
        scale: Literal["quarter", "half"] = "quarter"
        bias: bool = False
        total_eps: NonNegativeFloat = 0.0
        learned: bool = False
        norm: bool = False
        gate: PositiveFloat | None = None
        local_heads: NonNegativeInt = 0
        window: PositiveInt = WINDOW

        def __post_init__(self) -> None:
            super().__post_init__()
            kernel = self.kernel
            if self.window != WINDOW and not self.local_heads:
                raise ValueError(
                    f"window = {self.window} has no effect without local heads: give local_heads too, or leave"
                    " window out"
                )
            if self.features is None and kernel.owner.projects == "always":
                raise ValueError(
                    f"kernel={kernel.owner.name} is made of random features: give features a number, not none"
                )
            for option in ("bias", "learned"):
                if getattr(self, option) and (self.features is None or kernel.owner.projects == "never"):
                    raise ValueError(
                        f"{option}=true goes with random features, and this kernel has none here: leave {option} out"
                    )
            if self.gate is not None and (self.features is None or not vars(kernel.owner).get("one_each", False)):
                raise ValueError(
                    "gate drops features that are made of one random direction each, and those of"
                    f" kernel={kernel.owner.name} {'without random features ' if self.features is None else ''}are not:"
                    " leave gate out"
                )
            kernel.check(self)

    config: Config

    projection: Tensor | None
    bias: Tensor | None

    @property
    def square(self) -> bool:
        return self.config.local_heads > 0 or self.config.square

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        if config.local_heads > shape.num_heads:
            have = f"performer has {config.local_heads} local heads, more than the {shape.num_heads} heads of the layer"
            raise ValueError(f"{have}: give at most {shape.num_heads}")
        self.far = shape.num_heads - config.local_heads
        width = shape.head_dim
        kernel = config.kernel
        features = config.features
        if features == "auto":
            features = None if kernel.owner.projects == "never" else max(1, int(width * math.log(width)))
        projects = features is not None and kernel.owner.projects != "never"
        self.eps = config.total_eps
        self.scale = width ** (-0.25 if config.scale == "quarter" else -0.5)
        self.kernel: Kernel = kernel.owner(kernel, width, features or width, config.causal)
        self.floor = self.kernel.floor
        self.log_length = nn.Parameter(torch.full((self.far, 1, 1), math.log(width) / 2)) if config.norm else None
        directions = torch.empty(features or 0, width) if projects else None
        if config.learned and directions is not None:
            self.projection = nn.Parameter(directions)
        else:
            self.register_buffer("projection", directions)
        self.gate = None if config.gate is None or directions is None else nn.Parameter(torch.ones(len(directions)))
        self.register_buffer("bias", torch.empty(features or 0) if projects and config.bias else None)
        self.draw()

    def redraw(self, generator: torch.Generator | None = None) -> bool:
        # a gate is one of its direction
        drawn = self.projection is not None and not self.config.learned and self.gate is None
        if drawn:
            self.draw(generator)
        return drawn

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None) -> None:
        # on the CPU, so that one seed means the same features on every device
        # where there are no values, any size costs nothing
        if self.projection is not None and not self.projection.is_meta:
            rows, columns = self.projection.shape
            self.projection.copy_(ops.orthogonal_rows(rows, columns, self.config.scaling, generator))
        if self.bias is not None:
            self.bias.copy_(torch.randn(self.bias.shape, generator=generator))

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        if self.log_length is not None:
            x = F.normalize(x, dim=-1) * self.log_length.to(x.dtype).exp()
        if self.projection is None:
            u = x * self.scale
        else:
            u = x @ (self.projection.to(x.dtype).t() * self.scale)
            if self.bias is not None:
                u = torch.add(u, self.bias.to(x.dtype), out=ops.room(u))
        square = x.square().sum(-1, keepdim=True) * self.scale**2 if self.kernel.uses_norm else None
        features = self.kernel(u, square, keys, mask)
        return features if self.gate is None else features * self.gate.to(features.dtype)

    @torch.no_grad()
    def shrink(self, rate: float) -> None:
        if self.gate is not None and self.config.gate is not None:
            paid = self.gate.sign() * (self.gate.abs() - rate * self.config.gate).clamp(min=0.0)
            largest = paid.abs().amax()
            # attention divides, so only ratios count
            self.gate.copy_(torch.where(largest > 0, paid / largest, self.gate))

    def reduced(self) -> tuple[Config, dict[str, Tensor]] | None:
        if self.gate is None or bool(self.gate.all()):
            return None
        kept = self.gate.nonzero().flatten()
        kept = kept if len(kept) else kept.new_zeros(1)  # one that weighs nothing
        state = {
            name: t[kept] if name in ("projection", "bias", "gate") else t for name, t in self.state_dict().items()
        }
        return replace(self.config, features=len(kept)), state

    def mix(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if not self.config.local_heads:
            return super().mix(q, k, v, mask)
        (far_q, q), (far_k, k), (far_v, v) = (t.tensor_split([self.far], 1) for t in (q, k, v))
        near = ops.window_attention(q, k, v, self.config.window, mask, self.causal)
        return torch.cat([super().mix(far_q, far_k, far_v, mask), near], 1) if self.far else near

    def _weights(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        if not self.config.local_heads:
            return super()._weights(q, k, mask)
        (far_q, q), (far_k, k) = (t.tensor_split([self.far], 1) for t in (q, k))
        return torch.cat(
            [super()._weights(far_q, far_k, mask), ops.window_weights(q, k, self.config.window, mask, self.causal)], 1
        )

    def macs(self, n: int) -> int:
        heads, local = self.shape.num_heads, self.local_macs(n)
        near = ops.window_attention_macs(n, self.shape.head_dim, self.config.window, self.causal)
        return (super().macs(n) - local) // heads * self.far + self.config.local_heads * near + local

    def feature_map(self) -> ops.FeatureMap | None:
        if self.bias is not None or self.gate is not None or self.config.norm:
            return None
        return self.kernel.feature_map(None if self.projection is None else self.projection.float(), self.scale)

    @property
    def width(self) -> int:
        return self.kernel.width

    def phi_macs(self, n: int) -> int:
        projected = 0 if self.projection is None else self.projection.numel()
        return n * (projected + self.kernel.macs())
