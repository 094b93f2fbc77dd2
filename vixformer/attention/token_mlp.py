"""Token mixing of MLP-Mixer: an MLP along the tokens, the same for every channel (arXiv:2105.01601)."""

# B images  N tokens  D width

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor

from vixformer.attention.base import Mixer, Shape
from vixformer.nn.dense import Linear


class TokenMLP(Mixer, name="mlp"):
    """`hidden` left out is the number of tokens. Built for exactly one number of tokens."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Mixer.Config):
        hidden: PositiveInt | None = None

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        n = shape.tokens_for("mlp")
        self.fc1 = Linear(n, config.hidden or n)
        self.fc2 = Linear(config.hidden or n, n)

    def forward(self, x: Tensor) -> Tensor:
        built = self.fc1.in_features
        if x.shape[-2] != built:
            raise ValueError(
                f"this token mlp was built for {built} tokens and got {x.shape[-2]}: build the model for that image"
                " size"
            )
        return self.fc2(F.gelu(self.fc1(x.transpose(-1, -2)))).transpose(-1, -2)

    def reference(self, x: Tensor) -> Tensor:
        hidden = (
            sum(x[:, i, None] * self.fc1.weight[None, :, i, None] for i in range(x.shape[1])) + self.fc1.bias[:, None]
        )
        return self.fc2.weight @ F.gelu(hidden) + self.fc2.bias[:, None]

    def macs(self, n: int) -> int:
        return self.shape.dim * (self.fc1.weight.numel() + self.fc2.weight.numel())
