"""Optimisers, and learning rates as a function of time alone, so that there is no state to store."""

from __future__ import annotations

import math

import torch
from torch import nn

from vixformer.backbones.backbone import Backbone
from vixformer.config import Train
from vixformer.training.muon import Muon

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
