"""cosFormer: ReLU features, weighted by the cosine of the distance between tokens (arXiv:2202.08791)."""
# N tokens  K head width

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.attention.linear_core import LinearCore


class Cosine(LinearCore, name="cosine"):
    """phi(x) at place i of N is [r cos(pi i / 2N), r sin(pi i / 2N)] with r = ReLU(x): products fall off as cos(pi (i - j) / 2N)."""

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        n = x.shape[-2]
        angle = torch.arange(n, device=x.device, dtype=x.dtype)[:, None] * (torch.pi / (2 * n))
        r = F.relu(x) + 1e-6  # a token whose q is negative throughout still has a normaliser
        return torch.cat([r * angle.cos(), r * angle.sin()], -1)

    @property
    def width(self) -> int:
        return 2 * self.shape.head_dim
