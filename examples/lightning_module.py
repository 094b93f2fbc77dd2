"""Train a vixformer model with Lightning: `python examples/lightning_module.py`.

vixformer gives the model, the augmented batches and the recipe; Lightning runs the loop.
"""

from __future__ import annotations

import lightning
import torch
import torch.nn.functional as F
from torch.utils.data import IterableDataset

import vixformer as vix
from vixformer.attention.base import redraw
from vixformer.config import Recipe
from vixformer.data.loader import Loader
from vixformer.training.optim import learning_rate, make_optimizer, set_rate
from vixformer.training.parts import load_parts


class Batches(IterableDataset):
    """Whole batches of a loader: augmented and in another order every epoch, or plain."""

    def __init__(self, loader: Loader, seed: int | None = None) -> None:
        self.loader = loader
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self):
        if self.generator is None:
            return self.loader.plain()
        return self.loader.batches(self.loader.order(self.generator), self.generator)


class Classifier(lightning.LightningModule):
    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        parts = load_parts(recipe, torch.device("cpu"))
        self.loaders = parts
        self.model = recipe.build(parts.test.images)

    def forward(self, images):
        return self.model(images)

    def training_step(self, batch, number):
        train = self.recipe.train
        set_rate(
            self.optimizers().optimizer, learning_rate(train, self.current_epoch + number / len(self.loaders.train))
        )
        images, labels = batch
        return F.cross_entropy(self(images), labels, label_smoothing=train.label_smoothing)

    def on_train_batch_end(self, *_):
        every = self.recipe.train.redraw_every
        if every is not None and self.global_step % every == 0:
            redraw(self.model)  # new random features of Performers

    def validation_step(self, batch, _):
        images, labels = batch
        self.log("val_top1", 100 * (self(images).argmax(1) == labels).float().mean(), batch_size=len(labels))

    def configure_optimizers(self):
        return make_optimizer(self.model, self.recipe.train)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(Batches(self.loaders.train, self.recipe.train.seed), batch_size=None)

    def val_dataloader(self):
        return torch.utils.data.DataLoader(Batches(self.loaders.val), batch_size=None)


def main(recipe: Recipe, folder: str = "lightning-model", **options) -> float:
    """Returns the validation accuracy."""
    lightning.seed_everything(recipe.train.seed)
    module = Classifier(recipe)
    trainer = lightning.Trainer(
        max_epochs=recipe.train.epochs,
        gradient_clip_val=recipe.train.clip,
        logger=False,
        enable_checkpointing=False,
        **options,
    )
    trainer.fit(module)
    module.model.save_pretrained(folder)  # for vix.from_pretrained and vix predict
    return float(trainer.callback_metrics["val_top1"])


if __name__ == "__main__":
    print(f"{main(vix.load_recipe('quick/performer-relu')):.1f} % of the validation images")
