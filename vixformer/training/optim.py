"""Optimisers, and learning rates as a function of time alone, so that there is no state to store."""

from __future__ import annotations

import math

import torch

from vixformer.backbones.backbone import Backbone
from vixformer.config import Train

ONECYCLE_RISE, ONECYCLE_START, ONECYCLE_END = 0.3, 1 / 25, 1 / 25e4


def make_optimizer(model: Backbone, train: Train) -> torch.optim.Optimizer:
    skip = model.no_weight_decay() if train.decays == "matrices" else set()
    named = dict(model.named_parameters())
    groups = [
        {"params": [p for name, p in named.items() if name not in skip], "weight_decay": train.weight_decay},
        {"params": [p for name, p in named.items() if name in skip], "weight_decay": 0.0},
    ]
    fused = next(model.parameters()).device.type in ("cpu", "cuda", "mps")  # one pass over all weights instead of one an operation
    if train.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=train.lr, momentum=train.momentum, fused=fused)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[train.optimizer](groups, lr=train.lr, fused=fused)


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
