"""A picture as a stranger sends it, of any mode and size, brought to eight bits of gray or of red, green and blue."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from vixformer.room import MOST_PIXELS

MOST_BYTES = 20 * 2**20
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM")
DEEP = ("I", "F", "I;16", "I;16B", "I;16L")
"""Modes of more than eight bits a value."""
SPARE = 2
"""Times as large as it has to be, a JPEG is decoded: resizing the rest averages as it would have averaged the whole."""


def open_picture(
    source: Path | bytes, channels: int = 3, name: str | None = None, size: tuple[int, int] | None = None
) -> Image.Image:
    """Upright, without transparency (on white), the first of several frames, in mode L or RGB. What cannot be read is
    one sentence.

    With `size`, the height and width that the caller will resize to, a much larger JPEG is decoded at a half, a quarter
    or an eighth of its sides: a photograph of a phone in an eighth of the time.
    """
    name = name or (str(source) if isinstance(source, Path) else "the picture")
    if isinstance(source, bytes) and len(source) > MOST_BYTES:
        raise ValueError(
            f"{name} has {len(source) / 2**20:.0f} MiB, and at most {MOST_BYTES // 2**20} are read: send a smaller one"
        )
    try:
        with Image.open(source if isinstance(source, Path) else io.BytesIO(source), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                raise _TooLargeError(f"{image.width} x {image.height}")
            if size is not None:
                image.draft(None, (SPARE * max(size), SPARE * max(size)))
            return plain(image, channels)
    except FileNotFoundError:
        raise
    except _TooLargeError as error:
        raise ValueError(
            f"{name} is {error} pixels large, and at most {MOST_PIXELS:,} pixels are read: make it smaller"
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError(f"{name} is too large: at most {MOST_PIXELS:,} pixels are read") from None
    except Exception as error:  # a decoder that meets broken bytes raises anything
        reason = (
            "it is none of " + ", ".join(FORMATS) if isinstance(error, Image.UnidentifiedImageError) else f"{error}"
        )
        raise ValueError(f"{name} is no image that can be read: {reason}") from None


def short_side(path: Path) -> int:
    """Pixels of the shorter side; only the beginning of the file is read."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            return min(image.size)
    except Exception as error:
        raise ValueError(f"{path} is no image that can be read: {error}") from None


class _TooLargeError(Exception):
    pass


def plain(image: Image.Image, channels: int) -> Image.Image:
    """Upright, on white, in mode L or RGB."""
    image.load()
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode in DEEP:
        image = _eight_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    mode = "L" if channels == 1 else "RGB"
    return image if image.mode == mode else image.convert(mode)  # which copies


def _eight_bits(image: Image.Image) -> Image.Image:
    """Of sixteen bits the upper eight; of other numbers, from the least to the largest."""
    values = np.asarray(image)
    if values.dtype == np.uint16:
        return Image.fromarray((values >> 8).astype(np.uint8))
    values = values.astype(np.float32)
    low, high = (
        (0.0, 65535.0)
        if image.mode != "F" and values.min() >= 0 and values.max() <= 65535
        else (values.min(), values.max())
    )
    if image.mode == "I" and values.min() >= 0 and values.max() <= 255:
        high = 255.0
    return Image.fromarray(((values - low) / max(high - low, 1e-12) * 255).clip(0, 255).astype(np.uint8))
