"""`vix predict`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from vixformer.commands.flags import split_flags
from vixformer.terminal import read, say, table

BATCH = 64
SHEET_SIDE = 96


@dataclass(frozen=True, kw_only=True)
class Options:
    top: PositiveInt = 5
    """Classes an image; --json prints a line of JSON each."""
    attention_map: Path | None = None
    """A folder for pictures of where the model looks."""


def predict(args: Sequence[str]) -> None:
    as_json = "--json" in args
    words, flags = split_flags([arg for arg in args if arg != "--json"])
    options: Options = read(Options, flags, "predict")
    if len(words) < 2:
        raise ValueError('which model, and which images? write "vix predict runs/RUN picture.jpg"')
    from vixformer.results.predictor import Predictor

    predictor, files = Predictor.load(words[0]), list(_files(words[1:]))
    if options.attention_map is not None:
        if options.attention_map.is_file():
            raise ValueError(f"{options.attention_map} is a file, and maps go to a folder")
        options.attention_map.mkdir(parents=True, exist_ok=True)
    drawn: set[str] = set()
    broken, began, seen = 0, time.perf_counter(), 0
    rows: list[tuple[str, ...]] = []
    for start in range(0, len(files), BATCH):
        pictures = []
        for name, source in files[start : start + BATCH]:
            try:
                pictures.append((name, _open(name, source, predictor.preprocessing.channels)))
            except (ValueError, OSError) as error:
                broken += 1
                print(f"vix: {error}", file=sys.stderr)
        if not pictures:
            continue
        seen += len(pictures)
        for (name, picture), guesses in zip(pictures, predictor([picture for _, picture in pictures], options.top), strict=True):
            if as_json:
                print(json.dumps({"image": name, "top": [{"label": g.label, "probability": round(g.probability, 6)} for g in guesses]}))
            else:
                rows.append((name, *(f"{g.label} {g.probability:.1%}" for g in guesses)))
            if options.attention_map is not None:
                _draw(predictor, picture, options.attention_map / f"{_own_name(name, drawn)}-attention.png")
    if rows:
        table(("image", *(f"{i + 1}." for i in range(len(rows[0]) - 1))), rows)
    seconds = time.perf_counter() - began
    print(f"{seen} images in {seconds:.1f} s, {seen / max(seconds, 1e-9):.0f} a second", file=sys.stderr)
    if options.attention_map is not None and seen:
        say(f"attention maps are in {options.attention_map}")
    if broken:
        raise ValueError(f"{broken} of {len(files)} images could not be read" + ("; the others are above" if seen else ""))


def _files(words: Sequence[str]) -> Iterator[tuple[str, Path | bytes]]:
    from vixformer.data.folder import ENDINGS

    for word in words:
        path = Path(word)
        if word == "-":
            yield "-", sys.stdin.buffer.read()
        elif path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.suffix.lower() in ENDINGS)
            if not found:
                raise ValueError(f"{path} has no images in it ({', '.join(sorted(ENDINGS))})")
            yield from ((str(file), file) for file in found)
        else:
            yield word, path


def _open(name: str, source: Path | bytes, channels: int) -> Any:
    from vixformer.data.picture import open_picture

    try:
        return open_picture(source, channels, name)
    except FileNotFoundError:
        raise ValueError(f"{name} is not there") from None


def _own_name(name: str, taken: set[str]) -> str:
    """The file's name without its ending, with a number where another file has it too."""
    stem = "standard-input" if name == "-" else Path(name).stem
    own = next(one for one in (stem, *(f"{stem}-{i}" for i in range(2, len(taken) + 3))) if one not in taken)
    taken.add(own)
    return own


def _draw(predictor: Any, picture: Any, path: Path) -> None:
    from vixformer.report.maps import looks, sheet

    seen = looks(predictor.model, predictor.preprocessing([picture])[0])
    if seen.mean is None:
        raise ValueError("this model has no attention map to draw, its layers have neither q nor k: leave --attention-map out")
    sheet(picture, seen, SHEET_SIDE).save(path)
