"""The MLP of a block, and activations by name."""

from __future__ import annotations

from torch import Tensor, nn

from vixformer.registry import pick

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU, "hardswish": nn.Hardswish}


def activation(name: str) -> nn.Module:
    return pick(ACTIVATIONS, name, "activation")()


class MLP(nn.Module):
    def __init__(self, dim: int, hidden: int, act: str = "gelu", drop: float = 0.0) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = activation(act)
        self.fc2 = nn.Linear(hidden, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))
