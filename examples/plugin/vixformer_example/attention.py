"""Mean attention: every token takes the mean of all values."""

import torch

from vixformer.attention.base import Core
from vixformer.ops import wide


class ExampleMean(Core, name="example_mean"):
    mask = "exact"

    def attention_map(self, q, k, mask=None):
        seen = wide(torch.ones_like(k[:, 0, :, 0]) if mask is None else mask.to(k.dtype))
        weights = seen / seen.sum(-1, keepdim=True).clamp(min=1)
        return weights[:, None, None].expand(*q.shape[:3], -1)

    def forward(self, q, k, v, mask=None, grid=None):
        mean = self.attention_map(q[:, :, :1], k, mask) @ wide(v)
        return mean.to(v.dtype).expand(-1, -1, q.shape[-2], -1)

    def reference(self, q, k, v, mask=None, grid=None):
        return (self.attention_map(q, k, mask) @ wide(v)).to(v.dtype)

    def macs(self, n):
        return self.shape.num_heads * n * self.shape.head_dim
