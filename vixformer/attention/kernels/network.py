"""A learned kernel, softplus(W2 ReLU(W1 x + b1) + b2): the final f-theta of "Optimizing Image Classification on
CIFAR-10" (2024).

Its formula leaves the sign open; softplus makes the features positive, and `raw=true` omits softplus, as the formula
does. The hidden layer is twice as wide as the head.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.kernels.kernel import RawKernel


class MLPKernel(RawKernel, name="mlp"):
    projects = "never"

    def __init__(self, config: RawKernel.Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.fc1 = nn.Linear(head_dim, 2 * head_dim)
        self.fc2 = nn.Linear(2 * head_dim, features)

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        hidden = F.relu(F.linear(u, self.fc1.weight.to(u.dtype), self.fc1.bias.to(u.dtype)))
        features = F.linear(hidden, self.fc2.weight.to(u.dtype), self.fc2.bias.to(u.dtype))
        return (features if self.config.raw else F.softplus(features)) + self.config.eps

    def feature_map(self, directions: Tensor | None, scale: float) -> ops.FeatureMap | None:
        if self.config.raw:
            return None
        first, second = self.fc1, self.fc2
        network = dict(first=first.weight * scale, bias=first.bias, second=second.weight, shift=second.bias)
        return ops.NetworkMap(**network, smooth=True, eps=self.config.eps)

    def macs(self) -> int:
        return self.fc1.weight.numel() + self.fc2.weight.numel()
