"""Positive random features of the Gaussian kernel exp(-|q - k|^2 / 2): the softmax kernel with another power of the
norm."""

from __future__ import annotations

from vixformer import ops
from vixformer.attention.kernels.favor import SoftmaxKernel


class Gaussian(SoftmaxKernel, name="gaussian"):
    one_each = True
    form = ops.ExpMap
    norm_weight = 1.0
