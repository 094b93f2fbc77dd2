"""Optimizers, learning rates as a function of time alone, so that there is no state to store, and averages of
weights."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from vixformer.backbones.backbone import Backbone
from vixformer.config import Train

SCALE = "scale"
"""In a group of weights, the factor on the learning rate."""
ONECYCLE_RISE, ONECYCLE_START, ONECYCLE_END = 0.3, 1 / 25, 1 / 25e4


def make_optimizer(model: Backbone, train: Train) -> torch.optim.Optimizer:
    skip = model.no_weight_decay() if train.decays == "matrices" else set()
    scales = {} if train.layer_decay == 1 else layer_scales(model, train.layer_decay)
    muon = model.block_weights() - model.no_weight_decay() if train.optimizer == "muon" else set()
    kinds: dict[tuple[bool, float, bool], list[nn.Parameter]] = {(True, 1.0, False): [], (False, 1.0, False): []}
    for name, p in model.named_parameters():
        kind = name not in skip, scales.get(name, 1.0), name in muon and p.dim() == 2
        kinds.setdefault(kind, []).append(p)
    groups = [
        {"params": params, "weight_decay": train.weight_decay if decays else 0.0, SCALE: scale, "muon": by_muon}
        for (decays, scale, by_muon), params in kinds.items()
    ]
    if train.optimizer == "muon":
        return Muon(groups, lr=train.lr)
    # one pass over all weights instead of one an operation
    fused = next(model.parameters()).device.type in ("cpu", "cuda", "mps")
    if train.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=train.lr, momentum=train.momentum, fused=fused)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[train.optimizer](groups, lr=train.lr, fused=fused)


def layer_scales(model: Backbone, decay: float) -> dict[str, float]:
    """The factor on the learning rate of each weight: 1 behind the last block, `decay` in it, its square in the one
    before. Weights outside of blocks count with the block before them."""
    blocks = [part for stage in model.stages for part in (stage if isinstance(stage, nn.ModuleList) else [stage])]
    level = {id(p): i for i, block in enumerate(blocks, 1) for p in block.parameters()}
    last = {id(p): len(blocks) + 1 for part in (model.norm, model.head) for p in part.parameters()}
    level |= {id(p): len(blocks) + 1 for p in model.pool.parameters()} | last
    found, before = {}, 0
    for name, p in model.named_parameters():
        before = level.get(id(p), before)
        found[name] = decay ** (len(blocks) + 1 - before)
    return found


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(SCALE, 1.0)


def learning_rate(train: Train, epoch: float) -> float:
    """The rate `epoch` epochs, and parts of one, into training."""
    if epoch < train.warmup:
        return max(train.lr * epoch / train.warmup, train.min_lr)
    t, length = epoch - train.warmup, max(train.epochs - train.warmup, 1e-9)
    return max(train.lr * _factor(train, t, min(t / length, 1.0)), train.min_lr)


def _factor(train: Train, t: float, share: float) -> float:
    match train.schedule:
        case "constant":
            return 1.0
        case "step":
            return train.step_factor ** (t // train.step_every)
        case "cosine":
            return _cosine(share)
        case "restarts":
            began, length = 0, train.restart_every
            while train.restart_growth > 1 and t - began >= length:
                began, length = began + length, length * train.restart_growth
            return _cosine((t - began) % length / length)
        case "onecycle":
            if share < ONECYCLE_RISE:
                return ONECYCLE_START + (1 - ONECYCLE_START) * (1 - _cosine(share / ONECYCLE_RISE))
            return ONECYCLE_END + (1 - ONECYCLE_END) * _cosine((share - ONECYCLE_RISE) / (1 - ONECYCLE_RISE))


def _cosine(share: float) -> float:
    """From one to zero."""
    return (1 + math.cos(math.pi * share)) / 2


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
