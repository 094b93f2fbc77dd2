"""Classify images with a trained model."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import PositiveInt

from vixformer.commands.flags import ModelFolder, make_folder
from vixformer.options import Folder, Means, words
from vixformer.tables import Columns, say, table
from vixformer.terminal import Steps

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from vixformer.data.preprocess import Preprocessing
    from vixformer.results.predictor import Predictor

BATCH = 64
SHEET_SIDE = 96
ASKED = 'which model, and which images? write "vix predict runs/RUN picture.jpg"'


@dataclass(frozen=True, kw_only=True)
class Options(Columns):
    model: ModelFolder = words(missing=ASKED)
    """Folder of a run or of a model, or a model of the Hugging Face Hub; latest, or the first letters of a run in
    runs/."""
    images: tuple[Annotated[str, Means("an image", "IMAGE")], ...] = words(
        missing='which images? write "vix predict runs/RUN picture.jpg", or the name of a folder of images'
    )
    """Image files, or folders of them; - reads one image from standard input."""
    top: PositiveInt = 5
    """Number of classes to print for each image."""
    json: bool = False
    """Print one line of JSON for each image instead of a table."""
    invert: bool = False
    """Invert every image. Left out: only dark-on-light images are inverted, for a model that was trained on
    light-on-dark ones."""
    as_is: bool = False
    """Never invert an image."""
    attention_map: Folder | None = None
    """Folder for pictures that show where the model looks."""


def run(options: Options) -> None:
    if "" in (options.model, *options.images):
        raise ValueError('the name of a model or an image is empty: write "." for the folder you are in')
    if options.invert and options.as_is:
        raise ValueError("--invert inverts every image and --as-is none: give one of them")
    import torch

    from vixformer.data.ahead import ahead
    from vixformer.report.maps import has_map
    from vixformer.results.groups import counted
    from vixformer.results.predictor import Predictor

    predictor, files = Predictor.load(options.model), list(_files(options.images))
    if options.attention_map is not None:
        make_folder(options.attention_map, "--attention-map")
        if not has_map(predictor.model):
            raise ValueError(
                "this model has no attention map to draw, its layers have neither q nor k: leave --attention-map out"
            )
    drawn: set[str] = set()
    broken, colored, inverted, seen, began = 0, 0, 0, 0, time.perf_counter()
    rows: list[tuple[str, ...]] = []
    read = ahead(partial(_read, predictor.preprocessing, options), files)
    with Steps() as steps:
        for start in range(0, len(files), BATCH):
            if len(files) > BATCH:
                steps("classifying", start, len(files))
            found = list(islice(read, BATCH))
            for error in (one for one in found if isinstance(one, Exception)):
                if len(files) == 1:
                    raise error
                broken += 1
                print(f"vix: {error}", file=sys.stderr)
            ready = [one for one in found if isinstance(one, _Read)]
            if not ready:
                continue
            seen += len(ready)
            inverted += sum(one.inverted for one in ready)
            colored += sum(one.colored for one in ready)
            logits = predictor.logits(predictor.preprocessing.batch(torch.stack([one.pixels for one in ready])))
            for one, guesses in zip(ready, predictor.guesses(logits, options.top), strict=True):
                if options.json:
                    told = {"inverted": True} if one.inverted else {}
                    print(json.dumps({"image": one.name, "top": [guess.to_dict() for guess in guesses], **told}))
                else:
                    rows.append((one.name, *map(str, guesses)))
                if one.picture is not None and options.attention_map is not None:
                    _draw(predictor, one, options.attention_map / f"{_own_name(one.name, drawn)}-attention.png")
    if rows:
        table(
            ("image", *(f"{i + 1}." for i in range(len(rows[0]) - 1))),
            rows,
            [f"{i}." for i in range(len(rows[0]) - 1, 1, -1)],
        )
    seconds = time.perf_counter() - began
    if seen:
        print(f"{counted(seen, 'image')} in {seconds:.1f} s, {seen / max(seconds, 1e-9):.0f} a second", file=sys.stderr)
    if inverted:
        some = counted(inverted, "image") + (" was" if inverted == 1 else " were")
        ground = predictor.preprocessing.ground
        print(
            f"{some} inverted, because the model was trained on {ground} backgrounds; --as-is turns this off",
            file=sys.stderr,
        )
    if colored:
        some = counted(colored, "image") + (" is" if colored == 1 else " are")
        print(
            f"{some} colored, and the model was trained on gray images: it cannot recognize photographs",
            file=sys.stderr,
        )
    if options.attention_map is not None and seen:
        say(f"attention maps are in {options.attention_map}")
    if broken:
        raise ValueError(
            f"{broken} of {len(files)} images could not be read" + ("; the others are above" if seen else "")
        )


def _files(words: Sequence[str]) -> Iterator[tuple[str, Path | bytes]]:
    from vixformer.data.folder import ENDINGS, list_images

    for word in words:
        path = Path(word)
        if word == "-":
            yield "-", sys.stdin.buffer.read()
        elif path.is_dir():
            found = list_images(path.rglob("*"))
            if not found:
                raise ValueError(f"{path} has no images in it ({', '.join(sorted(ENDINGS))})")
            yield from ((str(file), file) for file in found)
        else:
            yield word, path


@dataclass(frozen=True)
class _Read:
    name: str
    pixels: Tensor
    inverted: bool
    """By itself, not because --invert said so."""
    colored: bool
    """Though the model knows gray images."""
    picture: Image.Image | None
    """Where its attention is drawn."""


def _read(preprocessing: Preprocessing, options: Options, file: tuple[str, Path | bytes]) -> _Read | Exception:
    from PIL import ImageOps

    from vixformer.data.picture import open_picture

    name, source = file
    try:
        # a map of where the model looks is drawn over all of the picture
        size = preprocessing.stored if options.attention_map is None else None
        picture = open_picture(source, name=name, size=size)
    except FileNotFoundError:
        return ValueError(f"{name} is not there")
    except (ValueError, OSError) as error:
        return error
    colored = preprocessing.colored(picture)
    if preprocessing.channels == 1:
        picture = picture.convert("L")
    turned = not (options.invert or options.as_is) and preprocessing.reversed(picture)
    if options.invert or turned:
        picture = ImageOps.invert(picture)
    drawn = None if options.attention_map is None else picture
    return _Read(name, preprocessing.pixels(picture), turned, colored, drawn)


def _own_name(name: str, taken: set[str]) -> str:
    """The file's name without its ending, with a number where another file has it too."""
    stem = "standard-input" if name == "-" else Path(name).stem
    own = next(one for one in (stem, *(f"{stem}-{i}" for i in range(2, len(taken) + 3))) if one not in taken)
    taken.add(own)
    return own


def _draw(predictor: Predictor, one: _Read, path: Path) -> None:
    from vixformer.report.maps import looks, sheet
    from vixformer.writing import whole

    assert one.picture is not None
    seen = looks(predictor.model, predictor.preprocessing.batch(one.pixels[None])[0])
    with whole(path) as part:
        sheet(one.picture, seen, SHEET_SIDE).save(part, "PNG")
