"""Image files decoded once into one file that is mapped into memory, so that a set larger than memory streams from
disk."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vixformer.data.ahead import ahead
from vixformer.data.picture import open_picture
from vixformer.notes import decoded as tell
from vixformer.notes import note
from vixformer.writing import remove_parts, whole

WAY = 3
"""Of decoding: another number where the same files give other pixels."""
UNTOUCHED = 3600.0
"""Seconds: a file that nobody wrote to for so long will not be completed."""
IN_MEMORY: dict[str, np.ndarray] = {}
"""What was decoded where no file can be written, by its digest: a run reads its images several times."""


def decode(path: Path, size: tuple[int, int] | None, channels: int = 3) -> np.ndarray:
    """uint8 (channels, height, width), RGB or gray, resized to `size` (height, width) where one is given."""
    image = open_picture(path, channels, size=size)
    if size is not None and image.size != (size[1], size[0]):
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(image.height, image.width, channels).transpose(2, 0, 1)


def decoded(paths: Sequence[Path], size: tuple[int, int], channels: int = 3) -> Tensor:
    """uint8 (N, channels, height, width), mapped from a cache that is known by the files' names, sizes and times."""
    files = [(str(path), stat.st_size, stat.st_mtime_ns) for path in paths for stat in (path.stat(),)]
    way = (WAY, size, files) if channels == 3 else (WAY, size, files, channels)
    digest = hashlib.sha256(repr(way).encode()).hexdigest()[:24]
    shape = (len(paths), channels, *size)
    if (folder := _folder()) is None:
        return _in_memory(paths, shape, digest)
    target = folder / f"{digest}.u8"
    needed = math.prod(shape)
    if not target.exists() or target.stat().st_size != needed:
        remove_parts(folder, older=UNTOUCHED)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise ValueError(
                f"{len(paths):,} decoded images of {size[0]} x {size[1]} need {needed / 2**20:,.0f} MiB and {folder}"
                f" has {free / 2**20:,.0f} MiB left: make them smaller with --data.resize, or set XDG_CACHE_HOME to a"
                " folder with more room"
            )
        # written and not mapped: of a full disk a map tells with SIGBUS
        with whole(target) as part, part.open("wb") as store:
            for pixels in _each(paths, shape):
                store.write(np.ascontiguousarray(pixels).data)
    return mapped(target, shape)


def _each(paths: Sequence[Path], shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    for done, pixels in enumerate(ahead(lambda path: decode(path, (shape[2], shape[3]), shape[1]), paths), 1):
        yield pixels
        tell(done, len(paths))


def _folder() -> Path | None:
    """Where decoded images are stored; None where nothing can be written."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vix" / "images"
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows where home is
        note(
            f"decoded images are kept in memory, because they cannot be stored: {error}; set XDG_CACHE_HOME to a folder"
            " where they can"
        )
        return None
    return folder


def _in_memory(paths: Sequence[Path], shape: tuple[int, ...], digest: str) -> Tensor:
    if digest not in IN_MEMORY:
        store = np.empty(shape, np.uint8)
        for i, pixels in enumerate(_each(paths, shape)):
            store[i] = pixels
        IN_MEMORY[digest] = store
    return torch.from_numpy(IN_MEMORY[digest])


def mapped(path: Path, shape: tuple[int, ...]) -> Tensor:
    """uint8 of this shape, read from the file as it is needed."""
    # torch warns of memory that cannot be written, but a writable map must fit into memory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(np.memmap(path, np.uint8, "r", shape=shape))
