"""Loss functions, by name."""

# B images  C classes

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from vixformer.config import Train
from vixformer.data.dataset import are_numbers

Loss = Callable[[Tensor, Tensor], Tensor]
"""Of scores (B, C), float32, and labels (B,)."""


def loss_of(train: Train, labels: Tensor, classes: Sequence[str], device: torch.device) -> Loss:
    """`labels` are those of the training images, for weights by how often a class occurs. Where an image may have
    several labels, each has a loss of its own; numbers have that of the difference."""
    if are_numbers(labels):
        return partial(_difference, huber=_is_huber(train))
    if train.loss == "huber":
        raise ValueError("train.loss=huber is for numbers: name their column with data.target, or leave out the loss")
    if labels.dim() > 1:
        return partial(_each_label, weights=_label_weights(train, labels, device), smoothing=train.label_smoothing)
    weights = _class_weights(train, labels, classes)
    weights = None if weights is None else weights.to(device)
    if train.loss == "focal":
        return partial(focal, gamma=train.focal_gamma, weights=weights)
    return partial(F.cross_entropy, weight=weights, label_smoothing=train.label_smoothing)


def _is_huber(train: Train) -> bool:
    """Label smoothing, which recipes may have, does nothing to numbers."""
    if train.loss == "focal" or train.class_weights is not False:
        raise ValueError("data.target has numbers, not classes: leave out train.loss=focal and train.class_weights")
    return train.loss == "huber"


def _difference(scores: Tensor, numbers: Tensor, huber: bool) -> Tensor:
    """Of scores (B, 1) from numbers (B,), which are multiples of their standard deviation."""
    return (F.huber_loss if huber else F.mse_loss)(scores[:, 0], numbers)


def _each_label(scores: Tensor, labels: Tensor, weights: Tensor | None, smoothing: float) -> Tensor:
    """Binary cross-entropy of each label, and its mean."""
    return F.binary_cross_entropy_with_logits(
        scores, labels.lerp(torch.full_like(labels, 0.5), smoothing), pos_weight=weights
    )


def _label_weights(train: Train, labels: Tensor, device: torch.device) -> Tensor | None:
    """Of images that have a label: as many times as there are images that have it not."""
    if train.loss == "focal" or train.class_weights not in (True, False) or train.tta is not None:
        raise ValueError(
            "images have several labels: leave out train.loss=focal, numbers in train.class_weights, and train.tta"
        )
    counts = labels.sum(0).clamp(min=1)
    return ((len(labels) - counts).clamp(min=1) / counts).to(device) if train.class_weights else None


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
        raise ValueError(
            f"train.class_weights has {len(given)} weights and the data {len(classes)} classes: give one weight per"
            " class"
        )
    return torch.tensor(given)
