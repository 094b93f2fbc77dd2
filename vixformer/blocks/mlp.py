"""The MLP of a block."""

from __future__ import annotations

from torch import Tensor, nn

from vixformer.attention.projection import LinearNorm, activation


class MLP(nn.Module):
    """`normed`: batch norm instead of biases, as in LeViT."""

    def __init__(self, dim: int, hidden: int, act: str = "gelu", drop: float = 0.0, normed: bool = False) -> None:
        super().__init__()
        linear = LinearNorm if normed else nn.Linear
        self.fc1 = linear(dim, hidden)
        self.act = activation(act)
        self.fc2 = linear(hidden, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))
