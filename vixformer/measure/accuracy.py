"""How often a model is right: top-1, top-5, loss, and class by class; or how far off its numbers are."""
# B images  C classes

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.data.dataset import are_numbers, is_right
from vixformer.data.loader import Loader
from vixformer.jsonfile import Values

TINY = 1e-300
"""Numbers that are all the same have no spread to divide by."""


@dataclass(frozen=True)
class Scores:
    loss: float
    """Of numbers, the mean squared error in variances of the training images."""
    top1: float
    """Per cent; 0 of numbers, as top5."""
    top5: float
    labels: Tensor
    predictions: Tensor
    logits: Tensor | None = None
    """(N, classes), where an image may have several labels."""

    @property
    def measures(self) -> dict[str, float]:
        """What a history and a summary say, by name."""
        if not are_numbers(self.labels):
            return {"loss": self.loss, "top1": self.top1, "top5": self.top5, **self.several}
        labels = self.labels.double()
        off = self.predictions.double() - labels
        square, spread = off.square().mean(), (labels - labels.mean()).square().mean()
        found = {"mae": off.abs().mean(), "rmse": square.sqrt(), "r2": 1 - square / spread.clamp(min=TINY)}
        return {"loss": self.loss, **{name: value.item() for name, value in found.items()}}

    @property
    def several(self) -> dict[str, float]:
        """Measures for images that may have several labels, in per cent: mean average precision over the labels, and F1
        of all decisions together."""
        if self.logits is None:
            return {}
        from sklearn.metrics import average_precision_score, f1_score  # here, because they take a second to load

        labels, given = self.labels.numpy(), self.labels.any(0).numpy()
        chosen = (self.logits > 0).numpy()
        options: Values = {"average": "micro", "zero_division": 0}
        found = {
            "map": average_precision_score(labels[:, given], self.logits[:, given].numpy(), average="macro"),
            "f1": f1_score(labels, chosen, **options),
        }
        return {name: 100 * float(value) for name, value in found.items()}

    def confusion(self, classes: int) -> list[list[int]]:
        """Rows are what images are, columns what they were taken for."""
        return (
            torch.bincount(self.labels * classes + self.predictions, minlength=classes**2)
            .reshape(classes, classes)
            .tolist()
        )

    def per_class(self, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each class, and their averages."""
        from sklearn.metrics import classification_report  # here, because it takes a second to load

        numbers = list(range(len(names)))
        options: Values = {
            "labels": numbers,
            "target_names": [f"{i} {n}" for i, n in enumerate(names)],
            "zero_division": 0,
        }
        labels = self.labels.numpy()
        guesses = (self.predictions if self.logits is None else (self.logits > 0).float()).numpy()
        report = classification_report(labels, guesses, output_dict=True, **options)
        assert isinstance(report, dict)  # as text it would be a string
        return {
            key.partition(" ")[2] if key[0].isdigit() else key: value
            for key, value in report.items()
            if isinstance(value, dict) and key not in ("micro avg", "samples avg")
        }


Views = Callable[[Tensor], Sequence[Tensor]]
"""Several views of each image of a batch."""


def mirrored(images: Tensor) -> list[Tensor]:
    return [images, images.flip(-1)]


def shifted(images: Tensor) -> list[Tensor]:
    """Also moved by a sixteenth of the side in each of four directions; the border is repeated."""
    by = max(1, images.shape[-1] // 16)
    height, width = images.shape[-2:]
    padded = F.pad(images, [by] * 4, mode="replicate")
    corners = [(by, by), (0, by), (2 * by, by), (by, 0), (by, 2 * by)]
    return [view for y, x in corners for view in mirrored(padded[..., y : y + height, x : x + width])]


VIEWS: dict[str, Views] = {"flip": mirrored, "shift": shifted}


@torch.inference_mode()
def evaluate(
    model: nn.Module, loader: Loader, precision: torch.dtype = torch.float32, views: Views | None = None
) -> Scores:
    """Without augmentation, in evaluation mode; the model's mode comes back as it was. With `views`, the mean of the
    probabilities that they get (test-time augmentation)."""
    was_training = model.training
    model.eval()
    loss = torch.zeros((), dtype=torch.float64)
    hits = 0
    labels, predictions, logits = [], [], []
    for images, truth in loader.plain():
        with torch.autocast(images.device.type, dtype=precision, enabled=precision != torch.float32):
            scores = (
                model(images)
                if views is None
                else _mean([model(view) for view in views(images)], loader.target is not None)
            )
        scores = scores.float()
        if loader.target is not None:
            loss += F.mse_loss(scores[:, 0], truth, reduction="sum").cpu().double()
            mean, deviation = loader.target
            labels.append(truth.cpu().double() * deviation + mean)
            predictions.append(scores[:, 0].cpu().double() * deviation + mean)
            continue
        best = scores.topk(min(5, scores.shape[1])).indices
        if truth.dim() == 1:
            loss += F.cross_entropy(scores, truth, reduction="sum").cpu().double()
            hits += int((best == truth[:, None]).any(1).sum())
        else:
            each = F.binary_cross_entropy_with_logits(scores, truth, reduction="none")
            loss += each.mean(1).sum().cpu().double()
            hits += int(truth.gather(1, best).any(1).sum())
            logits.append(scores.cpu())
        labels.append(truth.cpu())
        predictions.append(best[:, 0].cpu())
    model.train(was_training)
    truth, guessed = torch.cat(labels), torch.cat(predictions)
    count = len(truth)
    if loader.target is not None:
        return Scores(loss.item() / count, 0.0, 0.0, truth, guessed)
    return Scores(
        loss.item() / count,
        100 * is_right(guessed, truth).double().mean().item(),
        100 * hits / count,
        truth,
        guessed,
        torch.cat(logits) if logits else None,
    )


def _mean(scores: Sequence[Tensor], numbers: bool) -> Tensor:
    """Logarithms of the mean probabilities, or mean numbers."""
    if numbers:
        return torch.stack(list(scores)).float().mean(0)
    return torch.stack([s.float().log_softmax(1) for s in scores]).logsumexp(0) - math.log(len(scores))
