"""WebDataset shards: the same images as in a folder, read as they are needed."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.datasets import write_photos
from tests.support.recipes import tiny
from vixformer.commands.flags import data_options
from vixformer.data.dataset import open_data
from vixformer.data.shards import Streamed
from vixformer.jsonfile import Values
from vixformer.results.files import read_tensors
from vixformer.training.loop import train
from vixformer.training.observer import Observer, Stopped

pytestmark = pytest.mark.usefixtures("cache")


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def write_shards(photos: Path, target: Path, names: bool = True, count: int = 3) -> Path:
    """Each part of a folder of photographs in this number of shards, in the order of the folder."""
    target.mkdir()
    classes = sorted({path.parent.name for path in photos.glob("train/*/*.png")})
    for part in ("train", "test"):
        files = sorted(photos.glob(f"{part}/*/*.png"), key=lambda f: (f.parent.name, f))
        each = -(-len(files) // count)
        for shard in range(count):
            with tarfile.open(target / f"{part}-{shard:03}.tar", "w") as tar:
                for i, file in enumerate(files[shard * each : (shard + 1) * each]):
                    key = f"{shard * each + i:06}"
                    add(tar, f"{key}.png", file.read_bytes())
                    if names:
                        add(tar, f"{key}.json", json.dumps({"label": file.parent.name}).encode())
                    else:
                        add(tar, f"{key}.cls", str(classes.index(file.parent.name)).encode())
    return target


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write_photos(tmp_path / "photos")
    return tmp_path / "photos"


def test_they_hold_what_the_folder_holds(photos: Path, tmp_path: Path) -> None:
    shards = write_shards(photos, tmp_path / "shards")
    ours, theirs = (open_data(name, root, (20, 24)).whole() for name, root in (("shards", shards), ("folder", photos)))
    assert ours.digest == theirs.digest
    assert isinstance(ours.train.pixels, Streamed)
    index = torch.tensor([5, 170, 5, 88])
    assert torch.equal(ours.train.pixels[index], theirs.train.pixels[index])
    assert torch.equal(ours.train.pixels[torch.tensor(7)], theirs.train.pixels[7])
    assert data_options(str(shards)) == {"data.name": "shards", "data.root": str(shards)}


def test_numbers_get_names_from_a_file(photos: Path, tmp_path: Path) -> None:
    shards = write_shards(photos, tmp_path / "shards", names=False)
    assert open_data("shards", shards, (8, 8)).read("train").classes == ("0", "1", "2")
    (shards / "classes.txt").write_text("a\nb\nc\n")
    assert open_data("shards", shards, (8, 8)).read("train").classes == ("a", "b", "c")
    (shards / "classes.txt").write_text("1\n2\n0\n")  # names that look like numbers of other classes
    found = open_data("shards", shards, (8, 8)).read("train")
    assert found.classes == ("1", "2", "0")
    assert found.labels.unique().tolist() == [0, 1, 2]
    (shards / "classes.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match=r"classes.txt has 2 names, and the shards have 3 classes"):
        open_data("shards", shards, (8, 8)).read("train")
    for path in shards.glob("test-*"):
        path.unlink()
    (shards / "classes.txt").unlink()
    whole = open_data("shards", shards, (8, 8)).whole()
    assert "has no test-*.tar" in whole.split_off
    assert len(whole.test) == 36


def test_a_training_from_shards_is_that_from_the_folder_and_resumes(photos: Path, tmp_path: Path) -> None:
    shards = write_shards(photos, tmp_path / "shards")
    recipe = tiny(epochs=2, fraction=1.0)
    recipes = [
        replace(recipe, data=replace(recipe.data, name=name, root=str(root), resize=28, gray=True))
        for name, root in (("shards", shards), ("folder", photos))
    ]
    ours, theirs = (train(r, tmp_path / r.data.name) for r in recipes)
    assert [r["train_loss"] for r in ours.history] == [r["train_loss"] for r in theirs.history]

    class Once(Observer):
        def epoch_done(self, record: Values) -> None:
            raise Stopped

    with pytest.raises(Stopped):
        train(recipes[0], tmp_path / "stopped", observer=Once())
    train(recipes[0], tmp_path / "stopped", resume=True)
    one, two = (read_tensors(tmp_path / name / "last.safetensors")[0] for name in ("shards", "stopped"))
    assert all(torch.equal(t, two[name]) for name, t in one.items())


def damaged(shards: Path, kind: str) -> None:
    first = shards / "train-000.tar"
    if kind == "cut":
        first.write_bytes(first.read_bytes()[:5000])
    elif kind == "text":
        first.write_text("no tar")
    elif kind == "unlabeled":
        with tarfile.open(first, "w") as tar:
            add(tar, "a.png", b"x")
    elif kind == "empty":
        with tarfile.open(first, "w") as tar:
            add(tar, "a.txt", b"x")
    elif kind == "large":
        with tarfile.open(first, "w") as tar:
            add(tar, "a.png", bytes(21 * 2**20))
    elif kind == "list":
        with tarfile.open(first, "w") as tar:
            add(tar, "a.png", b"x")
            add(tar, "a.json", b"[1]")
    else:
        for path in shards.iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("cut", "train-000.tar"),
        ("text", "train-000.tar is no tar file that can be read"),
        ("unlabeled", "a in .*train-000.tar has no label: a shard is a .tar of files"),
        ("empty", "train-000.tar has no images"),
        ("list", "has no label: it should be an object"),
        ("large", "a.png in .*train-000.tar has 21 MiB, and at most 20 are read"),
        ("none", "has no .tar files"),
    ],
)
def test_what_is_wrong_is_one_sentence(kind: str, says: str, photos: Path, tmp_path: Path) -> None:
    shards = write_shards(photos, tmp_path / "shards")
    damaged(shards, kind)
    with pytest.raises(ValueError, match=says):
        _all_of(shards)


def _all_of(shards: Path) -> torch.Tensor:
    train = open_data("shards", shards, (8, 8)).whole().train
    return train.pixels[torch.arange(len(train))]
