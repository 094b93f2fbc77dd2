"""Performer: linear attention over random or deterministic features of a registered kernel (arXiv:2009.14794)."""
# N tokens  H heads  K head width  M features

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import NonNegativeFloat, PositiveInt
from torch import Tensor, nn

from vixformer.attention import native, ops
from vixformer.attention.base import Shape
from vixformer.attention.kernels.base import Kernel
from vixformer.attention.kernels.softmax import SoftmaxKernel
from vixformer.attention.linear import LinearCore


class Performer(LinearCore, name="performer"):
    """`features` is the number M of random directions: left out, int(K ln K); `none`, the kernel works on q and k themselves (M = K).

    `scaling` sets the norms of the directions (chi-distributed or all sqrt K), `scale` what q and k are multiplied by (K^-1/4 or K^-1/2),
    `bias` adds a random constant to each projection and `total_eps` a constant to the normaliser. `learned` makes the directions weights,
    random at first and never drawn again; `norm` brings q and k to one length, a temperature that each head learns, sqrt K at first.
    """

    mask = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config(LinearCore.Config):
        kernel: Kernel.Config = field(default_factory=SoftmaxKernel.Config)
        features: PositiveInt | Literal["auto"] | None = "auto"
        scaling: Literal["chi", "sqrt"] = "chi"
        scale: Literal["quarter", "half"] = "quarter"
        bias: bool = False
        total_eps: NonNegativeFloat = 0.0
        learned: bool = False
        norm: bool = False

        def __post_init__(self) -> None:
            super().__post_init__()
            kernel: Any = self.kernel
            if self.features is None and kernel.owner.projects == "always":
                raise ValueError(f"kernel={kernel.owner.name} is made of random features: give features a number, not none")
            for option in ("bias", "learned"):
                if getattr(self, option) and (self.features is None or kernel.owner.projects == "never"):
                    raise ValueError(f"{option}=true goes with random features, and this kernel has none here: leave {option} out")
            kernel.check(self)

    projection: Tensor | None
    bias: Tensor | None

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        width = shape.head_dim
        kernel: Any = config.kernel
        features = config.features
        if features == "auto":
            features = None if kernel.owner.projects == "never" else max(1, int(width * math.log(width)))
        projects = features is not None and kernel.owner.projects != "never"
        self.eps = config.total_eps
        self.scale = width ** (-0.25 if config.scale == "quarter" else -0.5)
        self.kernel: Kernel = kernel.owner(kernel, width, features or width, config.causal)
        self.floor = self.kernel.floor
        self.log_length = nn.Parameter(torch.full((shape.num_heads, 1, 1), math.log(width) / 2)) if config.norm else None
        directions = torch.empty(features or 0, width) if projects else None
        if config.learned and directions is not None:
            self.projection = nn.Parameter(directions)
        else:
            self.register_buffer("projection", directions)
        self.register_buffer("bias", torch.empty(features or 0) if projects and config.bias else None)
        self.draw()

    def redraw(self, generator: torch.Generator | None = None) -> bool:
        drawn = self.projection is not None and not self.config.learned
        if drawn:
            self.draw(generator)
        return drawn

    @torch.no_grad()
    def draw(self, generator: torch.Generator | None = None) -> None:
        # on the CPU, so that one seed means the same features on every device
        if self.projection is not None:
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
        return self.kernel(u, square, keys, mask)

    def native_map(self) -> native.FeatureMap | None:
        exponential = self.kernel.native_form()
        if exponential is None or self.bias is not None or self.config.learned or self.config.norm:
            return None
        weight = getattr(self.kernel, "norm_weight", 0.0) * self.scale**2
        directions = None if self.projection is None else self.projection.float().t() * self.scale
        return native.FeatureMap(directions, self.scale, exponential, weight, self.kernel.config.eps, self.eps)

    @property
    def width(self) -> int:
        return self.kernel.width

    def phi_macs(self, n: int) -> int:
        projected = 0 if self.projection is None else self.projection.numel()
        return n * (projected + self.kernel.macs())
