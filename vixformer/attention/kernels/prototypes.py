"""A learned kernel that is an attention itself: softmax(P x), how a token attends to M learned prototypes.

Two tokens attend to each other as far as they attend to the same prototypes: the attention-like f-theta that "Exploring
Fast Attention Mechanisms" (2024) leaves to future work.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.kernels.kernel import Kernel


class Prototypes(Kernel, name="prototypes"):
    projects = "never"

    def __init__(self, config: Kernel.Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.prototypes = nn.Parameter(torch.randn(features, head_dim))

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        return ops.softmax_features(u @ self.prototypes.to(u.dtype).t())

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        return ops.SharesMap(directions=self.prototypes, scale=scale)

    def macs(self) -> int:
        return self.prototypes.numel()
