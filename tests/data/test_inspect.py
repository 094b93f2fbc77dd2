"""A folder with everything wrong with it, and one with nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.command import fails, run
from tests.support.datasets import CLASSES, PER_CLASS, TEST_PER_CLASS, write_photos
from vixformer.data.dataset import open_data
from vixformer.data.folder import Folder
from vixformer.data.inspect import inspect


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write_photos(tmp_path / "photos")
    return tmp_path / "photos"


def found(photos: Path) -> set[tuple[str, str]]:
    source = open_data("folder", photos)
    assert isinstance(source, Folder)
    return {(one.problem, str(one.file.relative_to(photos))) for one in inspect(source).findings}


def test_each_problem_is_found_and_named(photos: Path) -> None:
    before = found(photos)
    train = photos / "train"
    (train / "class-0" / "zz-broken.png").write_bytes((train / "class-0" / "0.png").read_bytes()[:200])
    (train / "class-1" / "zz-empty.jpg").write_bytes(b"")
    shutil.copy(train / "class-0" / "1.png", train / "class-0" / "zz-copy.png")
    Image.open(train / "class-0" / "2.png").save(train / "class-0" / "zz-copy.bmp")  # the same pixels
    shutil.copy(train / "class-1" / "3.png", photos / "test" / "class-1" / "zz-leak.png")
    shutil.copy(train / "class-1" / "4.png", train / "class-2" / "zz-both.png")
    Image.open(train / "class-1" / "5.png").resize((8, 6)).save(train / "class-1" / "zz-tiny.png")
    shutil.move(train / "class-1" / "6.png", train / "class-0" / "zz-moved.png")  # trousers among shirts
    assert found(photos) - before >= {
        ("broken", "train/class-0/zz-broken.png"),
        ("broken", "train/class-1/zz-empty.jpg"),
        ("copy", "train/class-0/zz-copy.png"),
        ("copy", "train/class-0/zz-copy.bmp"),
        ("train and test", "test/class-1/zz-leak.png"),
        ("two classes", "train/class-2/zz-both.png"),
        ("tiny", "train/class-1/zz-tiny.png"),
        ("label", "train/class-0/zz-moved.png"),
    }
    assert len(before) <= 4  # labels of a folder where nothing is wrong


def test_labels_that_cannot_be_judged_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def noise(i: int) -> None:
        folder = tmp_path / f"class-{i % 2}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (24, 24), np.uint8)).save(folder / f"{i}.png")

    for i in range(80):
        noise(i)
    source = open_data("folder", tmp_path)
    assert isinstance(source, Folder)
    result = inspect(source)
    assert result.findings == []
    assert "Labels were not judged: a simple classifier tells the classes apart in" in result.judged
    for i in range(5, 80):
        (tmp_path / f"class-{i % 2}" / f"{i}.png").unlink()
    assert "that needs 5 images of every class" in inspect(source).judged


def test_the_command(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(photos / "train/class-0/1.png", photos / "train/class-0/zz-copy.png")
    out = run(capsys, "data", "check", str(photos))
    total = CLASSES * (PER_CLASS + TEST_PER_CLASS) + 1
    assert f"{total} images of 3 classes; 1 copied" in out
    rows = json.loads(run(capsys, "data", "check", str(photos), "--json"))
    assert {"problem": "copy"}.items() <= rows[0].items()
    assert 'unknown data set "phtos"' in fails(capsys, "data", "check", "phtos")
