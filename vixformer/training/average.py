"""An exponential moving average of the weights, kept beside the model that is trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import nn


class Average:
    """`weights` are those of a model: parameters are averaged, and buffers, such as random features, are the last
    ones."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module, steps: int) -> None:
        """After optimizer step number `steps`. The first steps count more, because the start means nothing."""
        decay = min(self.decay, (1 + steps) / (10 + steps))
        parameters = dict(model.named_parameters(remove_duplicate=False))
        now = model.state_dict()
        for name, tensor in now.items():
            if name in parameters and tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - decay)
            else:
                self.weights[name].copy_(tensor)

    @contextlib.contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """The model has these weights inside."""
        kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(self.weights)
        try:
            yield
        finally:
            model.load_state_dict(kept)
