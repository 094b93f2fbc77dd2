"""From one vector an image to class scores."""

from __future__ import annotations

from torch import nn

from vixformer.nn.activations import activation
from vixformer.nn.dense import Linear
from vixformer.nn.dropout import Dropout

MLP_WIDTHS = (2048, 1024)  # "Testing linear-attention Transformers"


def make_head(kind: str, dim: int, num_classes: int, act: str, drop: float) -> nn.Module:
    """`linear`, or `mlp` with two hidden layers. Zero classes: the vector itself."""
    if num_classes == 0:
        return nn.Identity()
    if kind == "linear":
        return Linear(dim, num_classes)
    layers: list[nn.Module] = []
    for width in MLP_WIDTHS:
        layers += [Linear(dim, width), activation(act), Dropout(drop)]
        dim = width
    return nn.Sequential(*layers, Linear(dim, num_classes))
