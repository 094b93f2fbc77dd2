"""A module under torch.compile, so that compiling pays: one graph for every batch size, and no other model's limits."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def compiled(module: nn.Module) -> Callable[..., Any]:
    """The batch, the first dimension of the first argument, may change from call to call; without this, every new model counts as one more
    recompilation of the same code, and after eight of them torch stops compiling."""
    alone: Any = {"isolate_recompiles": True} if "isolate_recompiles" in inspect.signature(torch.compile).parameters else {}
    run = torch.compile(module, **alone)

    mark = importlib.import_module("torch._dynamo").maybe_mark_dynamic

    def forward(x: Tensor, *args: Any, **options: Any) -> Any:
        if len(x) > 1:  # torch takes a batch of one for a constant
            mark(x, 0)
        return run(x, *args, **options)

    return forward
