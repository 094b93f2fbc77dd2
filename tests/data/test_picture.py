"""Pictures of every kind a stranger may send."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.support.pictures import bomb, encoded
from vixformer.data.picture import open_picture

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
def test_every_mode_becomes_eight_bit_color(data: bytes, expected: tuple[int, int, int] | None) -> None:
    picture = open_picture(data)
    assert picture.mode == "RGB"
    if expected is not None:
        assert picture.getpixel((0, 0)) == pytest.approx(expected, abs=4)
    assert open_picture(data, channels=1).mode == "L"


def test_a_photograph_is_turned_upright() -> None:
    photo, exif = Image.new("RGB", (6, 4)), Image.Exif()
    exif[274] = 6
    assert open_picture(encoded(photo, "JPEG", exif=exif)).size == (4, 6)


@pytest.mark.parametrize("turned", [1, 6])
def test_a_large_photograph_is_decoded_smaller_and_looks_the_same(turned: int) -> None:
    exif = Image.Exif()
    exif[274] = turned
    photo = Image.effect_mandelbrot((800, 600), (-2, -1.5, 1, 1.5), 90).convert("RGB")
    data = encoded(photo, "JPEG", exif=exif, quality=90)
    whole, smaller = open_picture(data), open_picture(data, size=(32, 48))
    assert whole.size == ((800, 600) if turned == 1 else (600, 800))
    assert smaller.size == tuple(side // 4 for side in whole.size)
    first, second = (np.asarray(p.resize((48, 32), Image.Resampling.BILINEAR), float) for p in (whole, smaller))
    assert abs(first - second).mean() < 1
    assert open_picture(data, size=(400, 400)).size == whole.size


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
    ids=[
        "nothing",
        "half a header",
        "cut short",
        "over our limit",
        "over Pillow's",
        "a bomb",
        "no picture",
        "too many bytes",
    ],
)
def test_what_cannot_be_read_is_a_sentence(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        open_picture(data, name="upload.png")
