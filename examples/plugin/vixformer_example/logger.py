"""A logger that writes one line per epoch into best.txt of the run folder: `--train.loggers example-text`."""

from vixformer.training.loggers import Logger


class Text(Logger, name="example-text"):
    def __init__(self, recipe, folder, name):
        self.path = folder / "best.txt"

    def epoch(self, history):
        lines = [f"epoch {record['epoch']}: {record['val_top1']:.1f} %\n" for record in history]
        self.path.write_text("".join(lines))
