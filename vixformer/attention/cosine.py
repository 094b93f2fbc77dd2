"""cosFormer: ReLU features, weighted by the cosine of the distance between tokens (arXiv:2202.08791)."""
# N tokens  K head width

from __future__ import annotations

from torch import Tensor

from vixformer import ops
from vixformer.attention.linear_core import LinearCore


class Cosine(LinearCore, name="cosine"):
    """phi(x) at place i of N is [r cos(pi i / 2N), r sin(pi i / 2N)] with r = ReLU(x): products fall off as cos(pi (i -
    j) / 2N)."""

    def phi(self, x: Tensor, keys: bool, mask: Tensor | None) -> Tensor:
        return self.feature_map()(x, keys)

    def feature_map(self) -> ops.FeatureMap:
        return ops.CosineMap()

    @property
    def width(self) -> int:
        return 2 * self.shape.head_dim
