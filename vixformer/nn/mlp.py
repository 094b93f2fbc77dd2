"""The MLP of a block."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from vixformer.nn.activations import activation
from vixformer.nn.dense import Linear
from vixformer.nn.dropout import Dropout
from vixformer.nn.norms import LinearNorm
from vixformer.ops import eager

LARGE = 2**16
"""Numbers an image from which the hidden layer is made again in backward: it takes a few percent of a step, which small
models notice."""


class MLP(nn.Module):
    """`normed`: batch norm instead of biases, as in LeViT."""

    def __init__(self, dim: int, hidden: int, act: str = "gelu", drop: float = 0.0, normed: bool = False) -> None:
        super().__init__()
        linear = LinearNorm if normed else Linear
        self.fc1 = linear(dim, hidden)
        self.act = activation(act)
        self.fc2 = linear(hidden, dim)
        self.drop = Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc1(x)
        if self.drop.p and self.training:
            return self.drop(self.fc2(self.drop(self.act(hidden))))
        return activated(self.act, hidden, self.fc2)


def activated(act: nn.Module, hidden: Tensor, linear: nn.Module) -> Tensor:
    """linear(act(hidden)), which keeps `hidden` alone for backward and makes the widest tensor of a block again.

    ReLU needs its result and not its input, so there is nothing to gain; a compiler decides for itself what to keep.
    """
    active = act(hidden)
    small = hidden.numel() < LARGE * hidden.shape[0] or hidden.is_meta
    if small or not active.requires_grad or isinstance(act, nn.ReLU) or not eager():
        return linear(active)
    place = active.data_ptr()

    def pack(saved: Tensor) -> Tensor | torch.Size:
        return saved.shape if saved.data_ptr() == place else saved

    def unpack(kept: Tensor | torch.Size) -> Tensor:
        return kept if isinstance(kept, Tensor) else act(hidden.detach()).view(kept)

    with saved_tensors_hooks(pack, unpack):
        return linear(active)
