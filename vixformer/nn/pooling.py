"""From tokens to one vector an image."""

# B images  N tokens  D width

from __future__ import annotations

import torch
from torch import Tensor, nn

from vixformer.nn.dense import Linear
from vixformer.registry import Named


def class_token(dim: int) -> nn.Parameter:
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(1, 1, dim), std=0.02))


def with_class_token(x: Tensor, token: Tensor | None) -> Tensor:
    return x if token is None else torch.cat([token.expand(x.shape[0], -1, -1), x], 1)


class Pooling(nn.Module, Named, family="pool"):
    """`prefix` is the number of class tokens it wants in front of the others."""

    prefix: int = 0

    def __init__(self, dim: int, num_tokens: int = 0) -> None:
        super().__init__()
        self.out_dim = dim

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class ClassToken(Pooling, name="cls"):
    prefix = 1

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class Mean(Pooling, name="mean"):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Sequence(Pooling, name="seq"):
    """A mean weighted by a learned softmax over the tokens, as in CCT (arXiv:2104.05704)."""

    def __init__(self, dim: int, num_tokens: int) -> None:
        super().__init__(dim, num_tokens)
        self.score = Linear(dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        return (self.score(x).softmax(1).transpose(1, 2) @ x).squeeze(1)


class Flatten(Pooling, name="flatten"):
    """All tokens side by side: for one image size only."""

    def __init__(self, dim: int, num_tokens: int) -> None:
        super().__init__(dim, num_tokens)
        self.num_tokens = num_tokens
        self.out_dim = dim * num_tokens

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != self.num_tokens:
            raise ValueError(
                f'pool="flatten" was built for {self.num_tokens} tokens and got {x.shape[1]}: build the model for that'
                " image size"
            )
        return x.flatten(1)
