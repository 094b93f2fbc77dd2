"""Trained models as release files, in pretrained/DATA: run folders with their card, matrices in half precision.

python -m tools.pretrained /tmp/runs/pretrained-mnist-seed0-...
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from vixformer.backbones.backbone import BEST, WEIGHTS_FILE, from_pretrained
from vixformer.export.push import card
from vixformer.measure.accuracy import evaluate
from vixformer.options import first_paragraph
from vixformer.results.runs import HISTORY, RECIPE, SUMMARY, Run, read_run
from vixformer.training.parts import load_parts

TARGET = Path(__file__).parent.parent / "pretrained"
LIGHT_ON_BLACK = ("mnist", "fashion-mnist")
LOST = 0.05
"""Points of test accuracy that half precision may cost."""


def release(folder: Path) -> None:
    run = read_run(folder)
    if run.summary is None:
        raise ValueError(f"{folder} is not finished")
    target = TARGET / run.recipe.data.name
    _keep(run, target)
    shutil.copytree(folder / BEST, target / BEST, dirs_exist_ok=True)
    # vectors stay as they are, so that the model is loaded in single precision
    tensors = {
        name: tensor.half() if tensor.ndim > 1 else tensor
        for name, tensor in load_file(folder / BEST / WEIGHTS_FILE).items()
    }
    save_file(tensors, target / BEST / WEIGHTS_FILE)
    top1 = evaluate(from_pretrained(target / BEST), load_parts(run.recipe, torch.device("cpu")).test).top1
    print(f"{target}: {top1:.2f} % of the test images, {run.summary['test_top1']:.2f} before rounding")
    if top1 < run.summary["test_top1"] - LOST:
        raise ValueError("rounding costs too much: keep single precision")
    note = (
        f"Its matrices are stored in half precision, with which it reaches {top1:.2f} %; it is loaded in single"
        " precision.\n"
    )
    if run.recipe.data.name in LIGHT_ON_BLACK:
        note += (
            "It knows light things on black, as they are in its data; `vix predict` inverts images that are dark on"
            " light.\n"
        )
    (target / "README.md").write_text(card(target, f"pretrained/{run.recipe.data.name}", "mit") + "\n" + note)


def _keep(run: Run, target: Path) -> None:
    """What is small of a run folder, without where its data were."""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(run.folder / SUMMARY, target)
    shutil.copy(run.folder / HISTORY, target)
    (target / RECIPE).write_text(replace(run.recipe, data=replace(run.recipe.data, root=None)).to_json())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("runs", nargs="+", type=Path)
    for path in parser.parse_args().runs:
        release(path)
