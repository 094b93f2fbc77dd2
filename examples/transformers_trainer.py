"""Train a vixformer model with the Trainer of transformers: `python examples/transformers_trainer.py`.

The Trainer wants a model that takes `pixel_values` and `labels` and returns a loss and logits.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

import vixformer as vix
from vixformer.config import Recipe
from vixformer.data.dataset import Images
from vixformer.data.loader import Loader
from vixformer.training.optim import make_optimizer
from vixformer.training.parts import load_parts


class Classifier(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values, labels=None):
        logits = self.model(pixel_values)
        return {"logits": logits} if labels is None else {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Numbers(Dataset):
    """Which images a batch has: the collator takes them, so that whole batches are augmented at once."""

    def __init__(self, images: Images) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number):
        return number


def collator(train: Loader, val: Loader, seed: int):
    generator = torch.Generator().manual_seed(seed)

    def collate(numbers):
        """Numbers from `len(train)` on are of the validation part."""
        index = torch.tensor(numbers)
        if int(index[0]) < len(train.images):
            images, labels = next(train.batches(index, generator))
        else:
            part = val.images.take(index - len(train.images))
            images, labels = next(Loader(part, len(part), val.mean, val.std, val.size, val.device).plain())
        return {"pixel_values": images, "labels": labels}

    return collate


class Shifted(Numbers):
    def __init__(self, images: Images, first: int) -> None:
        super().__init__(images)
        self.first = first

    def __getitem__(self, number):
        return self.first + number


def main(recipe: Recipe, folder: str = "trainer-model", **options) -> float:
    """Returns the validation accuracy."""
    parts, train = load_parts(recipe, torch.device("cpu")), recipe.train
    torch.manual_seed(train.seed)
    model = recipe.build(parts.test.images)
    arguments = TrainingArguments(
        folder, num_train_epochs=train.epochs, per_device_train_batch_size=train.batch_size, learning_rate=train.lr,
        per_device_eval_batch_size=train.batch_size, lr_scheduler_type="cosine", max_grad_norm=train.clip or 0.0,
        eval_strategy="epoch", save_strategy="no", report_to=[], seed=train.seed, use_cpu=True, **options,
    )  # fmt: skip
    trainer = Trainer(
        Classifier(model),
        arguments,
        data_collator=collator(parts.train, parts.val, train.seed),
        train_dataset=Numbers(parts.train.images),
        eval_dataset=Shifted(parts.val.images, len(parts.train.images)),
        compute_metrics=lambda found: {"top1": 100 * (found.predictions.argmax(1) == found.label_ids).mean()},
        optimizers=(make_optimizer(model, train), None),
    )
    trainer.train()
    model.save_pretrained(folder)  # for vix.from_pretrained and vix predict
    return float(trainer.evaluate()["eval_top1"])


if __name__ == "__main__":
    print(f"{main(vix.load_recipe('quick/performer-relu')):.1f} % of the validation images")
