"""Fit what a core learns for itself to the attention it replaces."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

STEPS, RATE = 100, 1e-2


def fit(core: Any, q: Tensor, k: Tensor, v: Tensor, wanted: Tensor, grid: tuple[int, int] | None, steps: int = STEPS) -> None:
    """A hundred steps of Adam on the relative error of the output. Keeps the best weights seen, so it never makes things worse."""
    parameters = [p for p in core.parameters() if p.requires_grad]
    if not parameters:
        return
    scale = wanted.float().square().mean().clamp(min=1e-12)
    optimizer = torch.optim.Adam(parameters, lr=RATE)
    best, kept = float("inf"), [p.detach().clone() for p in parameters]
    with torch.enable_grad():
        for step in range(steps + 1):
            loss = (core(q, k, v, None, grid) - wanted).float().square().mean() / scale
            if loss.item() < best:
                best, kept = loss.item(), [p.detach().clone() for p in parameters]
            if step == steps or not torch.isfinite(loss):
                break
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        for p, value in zip(parameters, kept, strict=True):
            p.copy_(value)
            p.grad = None
