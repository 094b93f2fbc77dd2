"""A configuration may ask for any size, so the tensors of a new model are counted before they are made. Too many are an
error."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from vixformer.jsonfile import Values

MOST_PIXELS = 50_000_000
"""Of one image."""
MAKERS = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye)


def memory() -> int:
    """Bytes that this process may have."""
    try:
        import resource

        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ImportError, AttributeError, ValueError):  # Windows
        return 2**36
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return found if limit == resource.RLIM_INFINITY else min(found, limit)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Room(TorchFunctionMode):
    """Tensors made inside need no more than `most` bytes together, or `ValueError` says so before the one that
    would."""

    def __init__(self, most: int, refusal: str) -> None:
        super().__init__()
        self.most, self.refusal, self.made = most, refusal, 0
        self.counts = torch.empty(0).device.type != "meta"  # where sizes are computed without weights, any size will do

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: tuple[Any, ...] = (), kwargs: Values | None = None
    ) -> object:
        kwargs = kwargs or {}
        if self.counts and func in MAKERS:
            self.made += _bytes(func, args, kwargs)
            if self.made > self.most:
                raise ValueError(self.refusal)
        return func(*args, **kwargs)


def _bytes(func: Callable[..., object], args: tuple[Any, ...], kwargs: Values) -> int:
    size = kwargs.get("size", args[:1] if func is torch.full else args)
    if len(size) == 1 and not isinstance(size[0], int):
        size = size[0]
    if func is torch.eye and len(size) == 1:
        size = (*size, *size)
    return math.prod(size) * (kwargs.get("dtype") or torch.get_default_dtype()).itemsize
