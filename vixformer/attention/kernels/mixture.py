"""A learned kernel, a exp(y / tau) + (1 - a) ReLU(y / tau) + eps with y a small network of x and a, tau and eps learned
too.

From "Optimizing Image Classification on CIFAR-10" (2024), which starts a, tau and eps at 0.5, 1 and 1e-6 and clamps y /
tau to [-5, 5] under the exponential. The scalars are used within the ranges in which the features stay positive.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.attention.kernels.kernel import Kernel


class Mixture(Kernel, name="mixture"):
    projects = "never"

    def __init__(self, config: Kernel.Config, head_dim: int, features: int, causal: bool) -> None:
        super().__init__(config, head_dim, features, causal)
        self.fc1 = nn.Linear(head_dim, 2 * head_dim)
        self.norm = nn.LayerNorm(2 * head_dim)
        self.fc2 = nn.Linear(2 * head_dim, features)
        self.mixture = nn.Parameter(torch.tensor(0.5))
        self.tau = nn.Parameter(torch.tensor(1.0))
        self.eps = nn.Parameter(torch.tensor(1e-6))

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        y = F.linear(u, self.fc1.weight.to(u.dtype), self.fc1.bias.to(u.dtype))
        y = F.relu(
            F.layer_norm(y, self.norm.normalized_shape, self.norm.weight.to(u.dtype), self.norm.bias.to(u.dtype))
        )
        y = F.linear(y, self.fc2.weight.to(u.dtype), self.fc2.bias.to(u.dtype)) / self.tau.to(u.dtype).clamp(min=0.01)
        a = self.mixture.to(u.dtype).clamp(0.0, 1.0)
        return a * torch.exp(y.clamp(-5.0, 5.0)) + (1 - a) * F.relu(y) + self.eps.to(u.dtype).clamp(min=1e-6)

    def macs(self) -> int:
        return self.fc1.weight.numel() + self.fc2.weight.numel()
