"""Where else the history of a run goes: `train.loggers` names them. The run folder is the truth; these are copies for other tools."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from vixformer.config import Recipe
from vixformer.jsonfile import Values
from vixformer.registry import Named
from vixformer.writing import write_text

Record = Values


class Logger(Named, family="logger"):
    """Told every epoch, and the summary at the end. After a resume it is told only what is new."""

    def __init__(self, recipe: Recipe, folder: Path, name: str) -> None: ...
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

    def epoch(self, history: list[Record]) -> None:
        for key, value in numbers(history[-1]).items():
            self.writer.add_scalar(key, value, history[-1]["epoch"])
        self.writer.flush()

    def finish(self, summary: Record) -> None:
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

    def epoch(self, history: list[Record]) -> None:
        for key, value in numbers(history[-1]).items():
            self.client.log_metric(self.run, key, value, step=history[-1]["epoch"])

    def finish(self, summary: Record) -> None:
        for key, value in numbers(summary).items():
            self.client.log_metric(self.run, key, value)
        self.client.set_terminated(self.run)


class WandB(Logger, name="wandb"):
    """Weights & Biases, as its own settings say ($WANDB_MODE=offline writes to the run folder)."""

    def __init__(self, recipe: Recipe, folder: Path, name: str) -> None:
        import wandb

        self.run = wandb.init(project="vixformer", name=name, id=name[-64:], dir=folder, config=recipe.to_dict(), resume="allow")

    def epoch(self, history: list[Record]) -> None:
        self.run.log(numbers(history[-1]), step=history[-1]["epoch"])

    def finish(self, summary: Record) -> None:
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
    return {key: value for key, value in record.items() if isinstance(value, int | float) and not isinstance(value, bool)}
