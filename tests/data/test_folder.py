"""Folders of images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.datasets import picture, write_tiny
from vixformer.data.folder import Folder, TinyImageNet
from vixformer.notes import decoding


@pytest.mark.usefixtures("cache")
def test_tiny_imagenet(tmp_path: Path) -> None:
    home = write_tiny(tmp_path)
    source = TinyImageNet(tmp_path)
    train, test = source.read("train"), source.read("test")
    assert train.classes == ("tench", "goldfish")
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert test.labels.tolist() == [1, 0]
    assert train.shape == (3, 64, 64)
    assert torch.equal(train.pixels[0, 0], train.pixels[0, 1])  # a gray one
    (home / "train" / "n01" / "images" / "n01_1.JPEG").write_text("not a picture")
    with pytest.raises(ValueError, match=r"n01_1.JPEG is no image that can be read"):
        source.read("train")
    (home / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn99\n")
    with pytest.raises(ValueError, match="does not name an image and a class"):
        source.read("test")
    for path in (home / "train" / "n01" / "images").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"has no images, and wnids.txt lists it"):
        source.read("train")


def test_a_folder_of_ones_own_is_decoded_once(tmp_path: Path, cache: Path) -> None:
    for part in ("train", "val"):
        for name, size in (("cat", (20, 30)), ("dog", (40, 40))):
            picture(tmp_path / part / name / "a.png", size)
    source = Folder(tmp_path)
    source.size = (24, 24)
    seen: list[int] = []
    with decoding(lambda done, _: seen.append(done)):
        train = source.read("train")
        assert source.read("test").labels.tolist() == [0, 1]
        source.read("train")
    assert train.shape == (3, 24, 24)
    assert train.classes == ("cat", "dog")
    assert seen == [1, 2, 1, 2]
    assert not list(cache.rglob("*.part"))
    (tmp_path / "train" / "empty").mkdir()
    with pytest.raises(ValueError, match="is a class folder without images"):
        source.read("train")
    picture(tmp_path / "val" / "wolf" / "a.png")
    (tmp_path / "train" / "empty").rmdir()
    with pytest.raises(ValueError, match="has the class wolf, which"):
        source.read("test")
    (tmp_path / "train" / "cat" / "a.jpg").write_text("text")
    with pytest.raises(ValueError, match="is no image that can be read"):
        source.read("train")
    assert not list(cache.rglob("*.part"))
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere: give --data FOLDER"):
        Folder(tmp_path / "nowhere").read("train")
