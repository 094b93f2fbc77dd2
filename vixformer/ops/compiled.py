"""A module under torch.compile, so that compiling pays: one graph for every batch size, and no other model's limits."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn

from vixformer.jsonfile import Values


def compiled(module: nn.Module) -> Callable[..., Tensor]:
    """The batch, the first dimension of the first argument, may change from call to call; without this, every new model
    counts as one more recompilation of the same code, and after eight of them torch stops compiling."""
    options: Values = {}
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:  # newer than torch 2.5
        options["isolate_recompiles"] = True
    run = torch.compile(module, **options)

    mark = importlib.import_module("torch._dynamo").maybe_mark_dynamic

    def forward(x: Tensor, *args: object, **options: object) -> Tensor:
        if len(x) > 1:  # torch takes a batch of one for a constant
            mark(x, 0)
        return run(x, *args, **options)

    return forward
