"""Pictures of every kind a stranger may send, and the way from a picture to a batch."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.training.test_loop import tiny
from vixformer.data.picture import open_picture
from vixformer.data.preprocess import Preprocessing
from vixformer.training.loop import train


def encoded(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is enormous, and has next to nothing in it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


RED = Image.new("RGB", (6, 4), (200, 10, 10))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (encoded(RED), (200, 10, 10)),
        (encoded(RED, "BMP"), (200, 10, 10)),
        (encoded(RED, "TIFF"), (200, 10, 10)),
        (encoded(RED.convert("P")), (204, 0, 0)),
        (encoded(Image.new("RGBA", (6, 4), (200, 10, 10, 0))), (255, 255, 255)),
        (encoded(Image.new("LA", (6, 4), (80, 255))), (80, 80, 80)),
        (encoded(Image.new("CMYK", (6, 4), (0, 255, 255, 0)), "TIFF"), (255, 0, 0)),
        (encoded(Image.new("1", (6, 4), 1)), (255, 255, 255)),
        (encoded(Image.fromarray(np.full((4, 6), 32896, np.uint16))), (128, 128, 128)),
        (encoded(Image.fromarray(np.full((4, 6), 100, np.int32)), "TIFF"), (100, 100, 100)),
        (encoded(Image.fromarray(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)), "TIFF"), (0, 0, 0)),
        (encoded(RED, "GIF", save_all=True, append_images=[Image.new("RGB", (6, 4))]), None),
        (encoded(Image.new("RGB", (1, 1), (9, 9, 9))), (9, 9, 9)),
    ],
)
def test_every_mode_becomes_eight_bit_colour(data: bytes, expected: tuple[int, int, int] | None) -> None:
    picture = open_picture(data)
    assert picture.mode == "RGB"
    if expected is not None:
        assert picture.getpixel((0, 0)) == pytest.approx(expected, abs=4)
    assert open_picture(data, channels=1).mode == "L"


def test_a_photograph_is_turned_upright() -> None:
    photo, exif = Image.new("RGB", (6, 4)), Image.Exif()
    exif[274] = 6
    assert open_picture(encoded(photo, "JPEG", exif=exif)).size == (4, 6)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is none of PNG, JPEG"),
        (b"GIF89a not really", "is no image"),
        (encoded(Image.effect_noise((64, 64), 50))[:-400], "is no image that can be read"),
        (bomb(8000, 8000), "8000 x 8000 pixels large"),
        (bomb(12_000, 12_000), "too large"),
        (bomb(60_000, 60_000), "too large"),
        (b"%PDF-1.4", "it is none of"),
        (b"\0" * (21 * 2**20), "has 21 MiB"),
    ],
    ids=["nothing", "half a header", "cut short", "over our limit", "over Pillow's", "a bomb", "no picture", "too many bytes"],
)
def test_what_cannot_be_read_is_a_sentence(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        open_picture(data, name="upload.png")


def test_preprocessing_is_kept_with_the_model_and_gives_the_batches_of_training(tmp_path: Path) -> None:
    from vixformer.training.parts import load_parts

    recipe = tiny(epochs=1)
    folder = tmp_path / "run"
    train(recipe, folder)
    kept = Preprocessing.load(folder / "best")
    parts = load_parts(recipe, torch.device("cpu"))
    assert kept.classes == parts.classes
    images, _ = next(parts.test.plain())
    stored = parts.test.images.pixels[parts.test.images.rows[:4]]
    pictures = [Image.fromarray(p[0].numpy() if len(p) == 1 else p.permute(1, 2, 0).numpy()) for p in stored]
    torch.testing.assert_close(kept(pictures), images[:4])
    large = [picture.resize((90, 70), Image.Resampling.NEAREST) for picture in pictures]
    assert kept(large).shape == images[:4].shape

    (folder / "best/preprocessing.json").write_text('{"classes": 3}')
    with pytest.raises(ValueError, match=r"preprocessing.json: classes"):
        Preprocessing.load(folder / "best")
    (folder / "best/preprocessing.json").unlink()
    with pytest.raises(ValueError, match="it says which images the model expects"):
        Preprocessing.load(folder / "best")
