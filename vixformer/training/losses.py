"""Loss functions, by name."""
# B images  C classes

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.config import Train

Loss = Callable[[Tensor, Tensor], Tensor]
"""Of scores (B, C), float32, and labels (B,)."""


def loss_of(train: Train, labels: Tensor, classes: Sequence[str], device: torch.device) -> Loss:
    """`labels` are those of the training images, for weights by how often a class occurs."""
    weights = _class_weights(train, labels, classes)
    weights = None if weights is None else weights.to(device)
    if train.loss == "focal":
        return partial(focal, gamma=train.focal_gamma, weights=weights)
    return partial(F.cross_entropy, weight=weights, label_smoothing=train.label_smoothing)


def focal(scores: Tensor, labels: Tensor, gamma: float, weights: Tensor | None = None) -> Tensor:
    """(1 - p)^gamma times the cross-entropy, where p is the probability of the right class (arXiv:1708.02002)."""
    losses = F.cross_entropy(scores, labels, reduction="none")
    # of a probability that rounds to one, the power has no gradient below gamma = 1
    hard = (1 - torch.exp(-losses)).clamp(min=torch.finfo(losses.dtype).tiny) ** gamma
    counted = torch.ones_like(losses) if weights is None else weights[labels]
    return (counted * hard * losses).sum() / counted.sum()


def _class_weights(train: Train, labels: Tensor, classes: Sequence[str]) -> Tensor | None:
    given = train.class_weights
    if isinstance(given, bool):
        counts = torch.bincount(labels, minlength=len(classes)).clamp(min=1)
        return (counts.sum() / (len(counts) * counts)).float() if given else None
    if len(given) != len(classes):
        raise ValueError(f"train.class_weights has {len(given)} weights and the data {len(classes)} classes: give one weight per class")
    return torch.tensor(given)
