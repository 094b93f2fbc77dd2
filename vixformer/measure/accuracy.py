"""How often a model is right: top-1, top-5, loss, and class by class."""
# B images  C classes

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.data.loader import Loader
from vixformer.jsonfile import Values


@dataclass(frozen=True)
class Scores:
    loss: float
    top1: float
    """Per cent."""
    top5: float
    labels: Tensor
    predictions: Tensor

    def confusion(self, classes: int) -> list[list[int]]:
        """Rows are what images are, columns what they were taken for."""
        return torch.bincount(self.labels * classes + self.predictions, minlength=classes**2).reshape(classes, classes).tolist()

    def per_class(self, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each class, and their averages."""
        from sklearn.metrics import classification_report  # here, because it takes a second to load

        numbers = list(range(len(names)))
        options: Values = {"labels": numbers, "target_names": [f"{i} {n}" for i, n in enumerate(names)], "zero_division": 0}
        report: Any = classification_report(self.labels.numpy(), self.predictions.numpy(), output_dict=True, **options)
        return {key.partition(" ")[2] if key[0].isdigit() else key: value for key, value in report.items() if isinstance(value, dict)}


@torch.inference_mode()
def evaluate(model: nn.Module, loader: Loader, precision: torch.dtype = torch.float32) -> Scores:
    """Without augmentation, in evaluation mode; the model's mode comes back as it was."""
    was_training = model.training
    model.eval()
    loss = torch.zeros((), dtype=torch.float64)
    hits = 0
    labels, predictions = [], []
    for images, truth in loader.plain():
        with torch.autocast(images.device.type, dtype=precision, enabled=precision != torch.float32):
            scores = model(images)
        scores = scores.float()
        loss += F.cross_entropy(scores, truth, reduction="sum").cpu().double()
        best = scores.topk(min(5, scores.shape[1])).indices
        hits += int((best == truth[:, None]).any(1).sum())
        labels.append(truth.cpu())
        predictions.append(best[:, 0].cpu())
    model.train(was_training)
    truth, guessed = torch.cat(labels), torch.cat(predictions)
    count = len(truth)
    return Scores(loss.item() / count, 100 * (truth == guessed).double().mean().item(), 100 * hits / count, truth, guessed)
