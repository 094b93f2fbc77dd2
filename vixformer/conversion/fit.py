"""Fit what a core learns for itself to the attention it replaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vixformer.attention.base import Core

STEPS, RATE = 100, 1e-2


@dataclass(frozen=True)
class Task:
    """What a core gets, and what it should give out."""

    core: Core
    q: Tensor
    k: Tensor
    v: Tensor
    wanted: Tensor
    """What the core it replaces gives."""
    exact: Tensor
    """What exact attention gives."""
    grid: tuple[int, int] | None

    def part(self, images: slice) -> Task:
        names = ("q", "k", "v", "wanted", "exact")
        return replace(self, **{name: getattr(self, name)[images] for name in names})

    def against_exact(self) -> Task:
        return replace(self, wanted=self.exact)

    def loss(self) -> Tensor:
        """Squared relative error."""
        off = (self.core(self.q, self.k, self.v, None, self.grid) - self.wanted).float()
        return off.square().mean() / self.wanted.float().square().mean().clamp(min=1e-12)

    @torch.no_grad()
    def error(self) -> float:
        return float(self.loss().sqrt())


def fit(tasks: Sequence[Task], steps: int = STEPS) -> None:
    """A hundred steps of Adam on the relative error of cores that share their weights, or of one. Keeps the best
    weights seen, so it never makes things worse."""
    parameters = [p for p in tasks[0].core.parameters() if p.requires_grad]
    if not parameters:
        return
    optimizer = torch.optim.Adam(parameters, lr=RATE)
    best, kept = float("inf"), [p.detach().clone() for p in parameters]
    with torch.enable_grad():
        for step in range(steps + 1):
            loss = torch.stack([task.loss() for task in tasks]).sum()
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
