"""Where else the history of a run goes: `train.loggers` names them. The run folder is the truth; these are copies for
other tools."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import torch

from vixformer.config import Recipe
from vixformer.data.loader import Loader
from vixformer.jsonfile import Values
from vixformer.registry import Named
from vixformer.writing import write_text

Record = Values
SHOWN, LEAST_SIDE = 16, 300
"""Images that loggers get, and the side of a confusion matrix in pixels."""


class Logger(Named, family="logger"):
    """Told the recipe with all of its values, images as the model gets them, every epoch, and the summary at the end.
    After a resume it is told only what is new."""

    def __init__(self, recipe: Recipe, folder: Path, name: str) -> None: ...
    def images(self, picture: np.ndarray) -> None:
        """uint8 (height, width, 3): augmented images to train on, side by side."""

    def epoch(self, history: list[Record]) -> None: ...
    def finish(self, summary: Record) -> None: ...


class Csv(Logger, name="csv"):
    """history.csv in the run folder, a line an epoch."""

    def __init__(self, recipe: Recipe, folder: Path, name: str) -> None:
        self.path = folder / "history.csv"

    def epoch(self, history: list[Record]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(key for record in history for key in record)))
        writer.writeheader()
        writer.writerows(history)
        write_text(self.path, text.getvalue())


class TensorBoard(Logger, name="tensorboard"):
    """Event files in the run folder: tensorboard --logdir runs."""

    def __init__(self, recipe: Recipe, folder: Path, name: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))
        self.writer.add_text("recipe", f"```json\n{recipe.to_json(name)}```")

    def images(self, picture: np.ndarray) -> None:
        self.writer.add_image("training images", picture, dataformats="HWC")

    def epoch(self, history: list[Record]) -> None:
        for key, value in numbers(history[-1]).items():
            self.writer.add_scalar(key, value, history[-1]["epoch"])
        self.writer.flush()

    def finish(self, summary: Record) -> None:
        if "confusion" in summary:
            self.writer.add_image("confusion", confusion_picture(summary), dataformats="HWC")
        self.writer.close()


class MLflow(Logger, name="mlflow"):
    """To $MLFLOW_TRACKING_URI, else to mlruns beside the run folders: mlflow ui --backend-store-uri runs/mlruns"""

    def __init__(self, recipe: Recipe, folder: Path, name: str) -> None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder of files needs no database
        import mlflow

        uri = os.environ.get("MLFLOW_TRACKING_URI") or (folder.parent.absolute() / "mlruns").as_uri()
        self.client = mlflow.MlflowClient(uri)
        found = self.client.get_experiment_by_name("vixformer")
        experiment = found.experiment_id if found else self.client.create_experiment("vixformer")
        runs = self.client.search_runs([experiment], f"tags.`mlflow.runName` = '{name}'")
        self.run = runs[0].info.run_id if runs else self.client.create_run(experiment, run_name=name).info.run_id
        if not runs:
            for section, values in recipe.to_dict().items():
                for key, value in values.items():
                    self.client.log_param(self.run, f"{section}.{key}", str(value)[:500])
            self.client.log_text(self.run, recipe.to_json(name), "recipe.json")

    def images(self, picture: np.ndarray) -> None:
        self.client.log_image(self.run, picture, "training-images.png")

    def epoch(self, history: list[Record]) -> None:
        for key, value in numbers(history[-1]).items():
            self.client.log_metric(self.run, key, value, step=history[-1]["epoch"])

    def finish(self, summary: Record) -> None:
        for key, value in numbers(summary).items():
            self.client.log_metric(self.run, key, value)
        if "confusion" in summary:
            self.client.log_image(self.run, confusion_picture(summary), "confusion.png")
            self.client.log_dict(self.run, {"confusion": summary["confusion"]}, "confusion.json")
        self.client.set_terminated(self.run)


class WandB(Logger, name="wandb"):
    """Weights & Biases, as its own settings say ($WANDB_MODE=offline writes to the run folder)."""

    def __init__(self, recipe: Recipe, folder: Path, name: str) -> None:
        import wandb

        self.image = wandb.Image
        self.run = wandb.init(
            project="vixformer", name=name, id=name[-64:], dir=folder, config=recipe.to_dict(), resume="allow"
        )

    def images(self, picture: np.ndarray) -> None:
        self.run.log({"training images": self.image(picture)}, step=0)

    def epoch(self, history: list[Record]) -> None:
        self.run.log(numbers(history[-1]), step=history[-1]["epoch"])

    def finish(self, summary: Record) -> None:
        if "confusion" in summary:
            self.run.log({"confusion": self.image(confusion_picture(summary))})
        self.run.summary.update(numbers(summary))
        self.run.finish()


def make_loggers(recipe: Recipe, folder: Path) -> list[Logger]:
    made = []
    for word in recipe.train.loggers:
        try:
            made.append(Logger.member(word)(recipe, folder, folder.name))
        except ImportError:
            raise ValueError(f'the logger {word} is not installed: pip install "vixformer[{word}]"') from None
    return made


def numbers(record: Record) -> dict[str, float]:
    return {
        key: value for key, value in record.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }


def side_by_side(loader: Loader, seed: int) -> np.ndarray:
    """Some training images as the model gets them, (height, width, 3), four in a row."""
    generator = torch.Generator().manual_seed(seed)
    index = torch.randperm(len(loader.images), generator=generator)[:SHOWN]
    images, _ = next(loader.batches(index, generator))
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (loader.mean, loader.std))
    pixels = (255 * (images.cpu() * std + mean)).clamp(0, 255).to(torch.uint8)
    pixels = torch.cat([pixels, pixels.new_zeros(-len(pixels) % 4, *pixels.shape[1:])])
    rows = torch.cat(list(torch.cat(list(pixels), 2).split(4 * pixels.shape[-1], 2)), 1)
    return rows[:3].expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()


def confusion_picture(summary: Record) -> np.ndarray:
    """Rows are what images are, columns what they were taken for; the darker, the larger part of the row."""
    counts = torch.tensor(summary["confusion"], dtype=torch.float32)
    share = counts / counts.sum(1, keepdim=True).clamp(min=1)
    side = max(1, -(-LEAST_SIDE // len(counts)))
    large = share.repeat_interleave(side, 0).repeat_interleave(side, 1).unsqueeze(2)
    light, dark = torch.tensor([247.0, 251.0, 255.0]), torch.tensor([8.0, 48.0, 107.0])
    return light.lerp(dark, large).to(torch.uint8).numpy()
