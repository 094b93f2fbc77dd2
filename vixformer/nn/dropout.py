"""Dropout that draws its random numbers sixteen bits at a time: on a CPU torch's own takes up to a quarter of a
training step."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.ops import Context, applied, eager

LEVELS = 2**16
WORD = 64 // 16
"""Draws in one of the generator's words."""


class Dropout(nn.Dropout):
    """As `nn.Dropout`, with p to the nearest 1 / 65,536, and a mask of one byte a number kept for backward instead of
    four."""

    def forward(self, input: Tensor) -> Tensor:
        if self.training and 0 < self.p < 1 and input.device.type == "cpu" and eager():
            return applied(_Drop, input, self.p)
        return F.dropout(input, self.p, self.training)


class _Context(Context):
    scale: float


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: _Context, x: Tensor, p: float) -> Tensor:
        keep, ctx.scale = kept(x.shape, p), 1 / (1 - p)
        ctx.save_for_backward(keep)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grads[0] * keep).mul_(ctx.scale), None


def kept(shape: torch.Size, p: float) -> Tensor:
    """True with the chance 1 - p, from torch's generator."""
    count = shape.numel()
    words = torch.empty(-(-count // WORD), dtype=torch.int64).random_(-(2**63), None)
    return (words.view(torch.int16)[:count] >= round(p * LEVELS) - LEVELS // 2).view(shape)
