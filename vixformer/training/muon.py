"""Muon (kellerjordan.github.io/posts/muon) for matrices, AdamW for all other weights, in one optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

A, B, C = 3.4445, -4.7750, 2.0315
"""Of the polynomial that brings singular values close to 1 (Newton-Schulz)."""
STEPS = 5
MOMENTUM = 0.95
LIKE_ADAMW = 0.2
"""Root mean square of an update of AdamW, which updates of matrices get too, so that one learning rate suits both
(arXiv:2502.16982)."""


class Muon(torch.optim.AdamW):
    """Groups with `muon=True` are updated by the orthogonalized momentum of their gradients (Nesterov's)."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["muon"]]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        for group in groups:
            if group["muon"]:
                for p in group["params"]:
                    if p.grad is not None:
                        self._update(p, p.grad, group["lr"], group["weight_decay"])
        return loss

    def _update(self, p: Tensor, grad: Tensor, lr: float, decay: float) -> None:
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
        momentum = state["momentum"].lerp_(grad, 1 - MOMENTUM)
        update = orthogonalized(grad.lerp(momentum, MOMENTUM))
        p.mul_(1 - lr * decay).add_(update, alpha=-lr * LIKE_ADAMW * max(p.shape) ** 0.5)


def orthogonalized(matrix: Tensor) -> Tensor:
    """About U V' of its singular value decomposition U S V'."""
    x = matrix / matrix.norm().clamp(min=1e-7)
    if wide := x.shape[0] > x.shape[1]:
        x = x.T
    for _ in range(STEPS):
        square = x @ x.T
        x = A * x + torch.addmm(square, square, square, beta=B, alpha=C) @ x
    return x.T if wide else x
