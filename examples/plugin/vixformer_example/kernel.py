"""Softplus: a smooth ReLU as the feature map of a Performer, `performer(kernel=softplus)`."""

import torch.nn.functional as F

from vixformer.attention.kernels.kernel import PositiveKernel


class Softplus(PositiveKernel, name="softplus"):
    one_each = True

    def forward(self, u, square, keys, mask):
        return F.softplus(u) + self.config.eps
