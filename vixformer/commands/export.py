"""`vix export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveInt
from rich.console import Console

from vixformer.commands.flags import several, split_flags
from vixformer.terminal import read, say, table

TESTED = 2000
"""Images whose classes are compared with their labels, before and after."""


@dataclass(frozen=True, kw_only=True)
class Options:
    format: str = "onnx"
    out: Path | None = None
    batch: PositiveInt = 1
    data: str | None = None


def export(args: Sequence[str]) -> None:
    dynamic = "--dynamic-batch" in args
    words, flags = split_flags([arg for arg in args if arg != "--dynamic-batch"])
    options: Options = read(Options, flags, "export")
    if len(words) != 1:
        raise ValueError('which model? write "vix export runs/RUN --format onnx"')
    from vixformer.export.check import export as exported
    from vixformer.export.formats import WRITERS
    from vixformer.results.predictor import Predictor

    forms = several(options.format, tuple(WRITERS), "--format")
    predictor = Predictor.load(words[0])
    out = options.out or Path(words[0]) / "export"
    with Console(stderr=True).status("exporting"):
        images, where = _images(words[0], options.data)
        found = exported(predictor, forms, out, images, dynamic, options.batch, TESTED)
    rows = [
        (
            e.form, "" if e.path is None else str(e.path), f"{e.megabytes:.2f}", "" if e.path is None else f"{e.difference:.1e}",
            f"{e.milliseconds:.2f}", "" if e.top1 is None else f"{e.top1:.2f}",
        )
        for e in found
    ]  # fmt: skip
    table(("model", "file", "MiB", "max difference", "ms", "top-1 %"), rows)
    pictures = "random pixels: the data is not here, so nothing is known about accuracy" if images is None else f"images of {where}"
    size = "any batch" if dynamic else f"batches of {options.batch}"
    say(f"For {size}; input `pixels`, 0 to 255, as stored; times for {options.batch} images, least of n, in turn; compared on {pictures}.")
    say(f"Classes, size and normalisation are in {out / 'preprocessing.json'}; normalisation is inside the model.")


def _images(model: str, data: str | None) -> tuple[Any, str]:
    """The validation part of what the run was trained on, or the test part of a data set that is named; None where neither is here."""
    import torch

    from vixformer.config import Data
    from vixformer.results.runs import RECIPE, read_run
    from vixformer.training.parts import load_parts

    if data is not None:
        return Data(name=data).source().read("test"), f"{data}, test part"
    folder = Path(model) if (Path(model) / RECIPE).exists() else Path(model).parent
    if not (folder / RECIPE).exists():
        return None, ""
    recipe = read_run(folder).recipe
    try:
        parts = load_parts(recipe, torch.device("cpu"))
    except (ValueError, OSError):
        return None, ""
    part, name = (parts.test, "test part") if parts.val is None else (parts.val, "validation part")
    if part.images.pixels.is_floating_point():
        return None, ""
    return part.images, f"{recipe.data.name}, {name}"
