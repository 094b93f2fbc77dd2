"""Export a trained model for other programs, and check it against PyTorch on real images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import PositiveInt
from rich.console import Console

from vixformer.commands.flags import DataName, ModelFolder, make_folder
from vixformer.options import Folder, Separated, words
from vixformer.tables import Shown, say, say_next, table

if TYPE_CHECKING:
    from vixformer.data.dataset import Images
    from vixformer.results.predictor import Predictor

TESTED = 2000
"""Images whose classes are compared with their labels, before and after."""
MOST_LOST = 1.0
"""Points that eight bits may cost without a word."""


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    model: ModelFolder = words(missing='which model? write "vix export runs/RUN --format onnx"')
    """Folder of a run or of a model; latest, or the first letters of a run in runs/."""
    format: Separated[Literal["onnx", "onnxruntime", "torch", "aot", "int8"]] = ("onnx",)
    """File formats: onnx, onnxruntime (ONNX with its own exact attention), torch (torch.export), aot (AOTInductor) and
    int8 (quantized ONNX)."""
    out: Folder | None = None
    """Folder for the files. Left out: the folder "export" of the run."""
    batch: PositiveInt = 1
    """Number of images in a batch."""
    dynamic_batch: bool = False
    """Accept batches of any size."""
    data: DataName | None = None
    """Data set whose test images the exported model is checked on. Left out: the validation images of the run."""


def run(options: Options) -> None:
    dynamic, name = options.dynamic_batch, options.model
    from vixformer.export.check import export as exported
    from vixformer.measure.load import watched
    from vixformer.results.groups import counted
    from vixformer.results.predictor import Predictor

    predictor = Predictor.load(name)
    out = options.out or (Path(name) if Path(name).exists() else Path(Path(name).name)) / "export"
    make_folder(out, "--out")
    with Console(stderr=True).status("reading images") as status:
        images, where = _images(name, options.data)
        _check(predictor, images, where)
        problems: list[str] = []
        with watched() as timing:
            found = exported(
                predictor, options.format, out, images, dynamic, options.batch, TESTED, problems.append, status.update
            )
    if not found:
        raise ValueError("; ".join(problems))
    rows = [
        (
            "PyTorch" if e.path is None else e.form, "" if e.path is None else str(e.path), f"{e.megabytes:.2f}",
            "" if e.path is None else f"{e.difference:.1e}",
            f"{e.milliseconds:.2f}", "" if e.top1 is None else f"{e.top1:.2f}",
        )
        for e in found
    ]  # fmt: skip
    table(("format", "file", "MiB", "max difference", "ms", "top-1 %"), rows, ("MiB", "max difference", "file"))
    pictures = (
        "random pixels: the data is not here, so nothing is known about accuracy"
        if images is None
        else f"images of {where}"
    )
    size = "any batch" if dynamic else f"batches of {options.batch}"
    say(f"For {size}; input `pixels`, 0 to 255, as stored. Compared on {pictures}.")
    say(
        f"Times are of {counted(options.batch, 'image')}, the least of several, in turn; top-1 is of"
        f" {counted(found[0].tested, 'image')}."
    )
    say(timing.told())
    whole = {e.form: e.top1 for e in found}
    if (
        (small := whole.get("int8")) is not None
        and (before := whole["eager"]) is not None
        and before - small > MOST_LOST
    ):
        say(f"8-bit weights cost {before - small:.2f} points of accuracy here: check whether that is worth it.")
    say(
        f"Classes, size and normalization are in {out / 'preprocessing.json'}; the exported model normalizes its input."
    )
    problems += [
        f"{e.path} differs from torch by {e.difference:.1e}: do not use it"
        for e in found
        if e.form != "int8" and not e.agrees
    ]
    if problems:
        raise ValueError("; ".join(problems))
    say_next(f"vix predict {options.model} IMAGE", "docs/shipping.md to run the file in another program")


def _check(predictor: Predictor, images: Images | None, where: str) -> None:
    """Whether these images are what the model takes."""
    if images is None:
        return
    prepare = predictor.preprocessing
    shape, wanted = tuple(images.pixels.shape[1:]), (prepare.channels, *prepare.stored)
    if shape != wanted:
        raise ValueError(
            f"images of {where} are {_shape(shape)}, and the model takes {_shape(wanted)}: leave --data out, or name"
            " its own"
        )
    if tuple(images.classes) != tuple(prepare.classes):
        raise ValueError(
            f"the classes of {where} are not those of the model ({', '.join(prepare.classes[:3])} ...): leave"
            " --data out"
        )


def _shape(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[2]} with {shape[0]} channel{'' if shape[0] == 1 else 's'}"


def _images(model: str, data: str | None) -> tuple[Images | None, str]:
    """The validation part of what the run was trained on, or the test part of a data set that is named; None where
    neither is here."""
    import torch

    from vixformer.config import Data
    from vixformer.hub import here
    from vixformer.results.runs import RECIPE, read_run
    from vixformer.training.parts import load_parts

    if data is not None:
        return Data(name=data).source().read("test"), f"{data}, test part"
    place = here(model)
    folder = place if (place / RECIPE).exists() else place.parent
    if not (folder / RECIPE).exists():
        return None, ""
    recipe = read_run(folder).recipe
    try:
        parts = load_parts(recipe, torch.device("cpu"), recipe.data.source().whole())
    except (ValueError, OSError):
        return None, ""
    part, name = (parts.test, "test part") if parts.val is None else (parts.val, "validation part")
    if part.images.pixels.is_floating_point():
        return None, ""
    return part.images, f"{recipe.data.shown}, {name}"
