"""Similarity of directions: the arc-cosine kernel of order 1, (sin t + (pi - t) cos t) / pi for q and k at an angle t.

ReLU features of q and k scaled to length one. (Features of the plain angle, 1 - t / pi, are steps and have no
gradient.)
"""

from __future__ import annotations

from torch import Tensor

from vixformer.attention.kernels.relu import ReLU


class Angular(ReLU, name="angular"):
    one_each = True
    projects = "always"
    uses_norm = True

    def forward(self, u: Tensor, square: Tensor | None, keys: bool, mask: Tensor | None) -> Tensor:
        assert square is not None
        return super().forward(u * square.clamp(min=1e-12).rsqrt(), None, keys, mask)
