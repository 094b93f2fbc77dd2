"""Positive random features of the Gaussian kernel exp(-|q - k|^2 / 2): the softmax kernel with another power of the norm."""

from __future__ import annotations

from vixformer.attention.kernels.softmax import SoftmaxKernel


class Gaussian(SoftmaxKernel, name="gaussian"):
    one_each = True
    native_exp = True
    norm_weight = 1.0
