"""A folder of somebody's own images, as it really looks."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.support.kernels import empty_cache
from vixformer import load_recipe
from vixformer.cli import main
from vixformer.config import Data, Recipe, Train
from vixformer.data import cache
from vixformer.data.folder import Folder
from vixformer.experiments.suit import suited
from vixformer.notes import Note, decoding
from vixformer.training.parts import load_parts


def image(width: int = 8, height: int = 8, mode: str = "RGB") -> Image.Image:
    return Image.effect_noise((width, height), 50).convert(mode)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two classes of twelve images to train on and two to test with."""
    monkeypatch.setenv("XDG_CACHE_HOME", empty_cache(tmp_path / "cache"))
    for part, count in (("train", 12), ("test", 2)):
        for name in ("cat", "dog"):
            folder = tmp_path / "photos" / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                image().save(folder / f"{i}.png")
    return tmp_path / "photos"


def only_one_class(root: Path) -> None:
    for part in ("train", "test"):
        shutil.rmtree(root / part / "dog")


def one_image_a_class(root: Path) -> None:
    for i in range(1, 12):
        (root / f"train/cat/{i}.png").unlink()


def dead_link(root: Path) -> None:
    (root / "train/cat/0.png").unlink()
    (root / "train/cat/0.png").symlink_to("0.png")


def unlabeled_test(root: Path) -> None:
    shutil.rmtree(root / "test")
    (root / "test").mkdir()
    image().save(root / "test/1.png")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: None, r"there are only 21 images to train on: give --train.batch-size 16"),
        (only_one_class, "train has one class folder, cat, and a classifier needs at least two classes: add a folder"),
        (one_image_a_class, "one class has a single one: add images, or give --data.val-fraction 0"),
        (lambda root: shutil.rmtree(root), "there is no folder .*photos: give --data FOLDER"),
        (unlabeled_test, "test has no class folders"),
        (lambda root: (root / "train/emu").mkdir(), r"emu is a class folder without images \(.bmp, "),
        (
            lambda root: image().save(root / "test/cat/0.png") or (root / "test/cat").rename(root / "test/emu"),
            "test has the class emu",
        ),
        (dead_link, "0.png is a broken link"),
        (lambda root: (root / "train/dog/3.png").write_bytes(b""), "3.png is no image that can be read"),
    ],
)
def test_what_is_wrong_with_a_folder_is_one_sentence(
    root: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None], words: str
) -> None:
    change(root)
    out = root.parent / "runs"
    with pytest.raises(SystemExit) as stop:
        main(["train", "quick/exact", "--data.name", "folder", "--data.root", str(root), "--out", str(out)])
    assert stop.value.code == 2
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("decoding ")]
    assert len(said) == 1
    assert re.search(words, said[0]), said
    assert not out.exists()


def test_every_kind_of_image_side_by_side(root: Path) -> None:
    folder = root / "train" / "cat"
    for mode, name in (
        ("L", "gray.png"),
        ("CMYK", "cmyk.jpg"),
        ("P", "palette.gif"),
        ("RGBA", "clear.webp"),
        ("RGB", "é 日本 🙂.PNG"),
    ):
        image(mode=mode).save(folder / name)
    image().save(folder / "moving.gif", save_all=True, append_images=[image()])
    Image.fromarray(np.full((8, 8), 40_000, np.uint16)).save(folder / "deep.png")
    exif = Image.Exif()
    exif[274] = 6
    image(20, 10).save(folder / "turned.jpg", exif=exif)
    for hidden in (".DS_Store", "._0.png", "notes.txt"):
        (folder / hidden).write_bytes(b"no image")
    (root / "train" / ".DS_Store").write_bytes(b"")
    (folder / "loop").symlink_to("..")
    (folder / "folder.png").mkdir()
    found = Data(name="folder", root=str(root)).source().read("train")
    assert len(found) == 24 + 8
    assert found.shape == (3, 8, 8)


def test_test_images_get_the_size_of_the_training_images(root: Path) -> None:
    image(16, 12).save(root / "test" / "cat" / "0.png")
    recipe = Recipe(data=Data(name="folder", root=str(root)), train=Train(batch_size=8))
    assert load_parts(recipe, torch.device("cpu")).test.images.shape == (3, 8, 8)


def test_large_images_that_nobody_resizes_are_named(root: Path) -> None:
    image(200, 100).save(root / "train" / "cat" / "0.png")
    with pytest.warns(Note, match="200 x 100 pixels, the size of the first one; .* --data.resize 64"):
        Data(name="folder", root=str(root)).source().read("test")
    Data(name="folder", root=str(root), resize=8).source().read("test")  # a warning is an error here


@pytest.mark.parametrize("where", ["file", "/proc/nothing", None])
def test_where_nothing_can_be_stored_images_are_kept_in_memory(
    root: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    stored = Data(name="folder", root=str(root)).source().read("train").pixels
    (root.parent / "file").write_bytes(b"")
    if where is None:  # a user without a home, as in many containers
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(
            Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("Could not determine home directory."))
        )
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", str(root.parent / where))
    monkeypatch.setattr(cache, "IN_MEMORY", {})
    seen: list[int] = []
    says = "kept in memory, because they cannot be stored: .*; set XDG_CACHE_HOME"
    with pytest.warns(Note, match=says), decoding(lambda done, _: seen.append(done)):
        kept = Data(name="folder", root=str(root)).source().read("train").pixels
    assert torch.equal(kept, stored)
    assert seen == list(range(1, len(kept) + 1))


def flat(root: Path) -> Path:
    """The same classes without train and test."""
    shutil.rmtree(root / "test")
    for name in ("cat", "dog"):
        shutil.move(root / "train" / name, root / name)
    (root / "train").rmdir()
    return root


@pytest.mark.parametrize("change", [flat, lambda root: shutil.rmtree(root / "test") or root])
def test_without_a_test_folder_some_of_each_class_are_set_apart(root: Path, change: Callable[[Path], Path]) -> None:
    source = Folder(change(root))
    train, test = (dict(source.files(part)) for part in ("train", "test"))
    assert not set(train) & set(test)
    assert sorted(test.values()) == [0, 0, 1, 1]
    assert len(train) == 20
    assert source.files("test") == Folder(root).files("test")
    whole = Folder(root, (8, 8)).whole()
    assert (len(whole.train), len(whole.test), whole.train.classes) == (20, 4, ("cat", "dog"))
    assert whole.split_off.endswith(
        "no test folder: 4 of 24 images (20% of each class) are set apart for testing, always the same ones"
    )
    (cat,) = {path.parent for path, label in train.items() if label == 0}
    image().save(cat / "new.png")
    assert len(set(dict(Folder(root).files("test"))) & set(test)) >= 3  # one more image moves one at most
    assert len(Folder(root, test_split=0.5).files("test")) == 6 + 6
    # every class keeps an image to train on
    assert set(dict(Folder(root, test_split=0.99).files("train")).values()) == {0, 1}


def test_a_class_may_be_called_train(root: Path) -> None:
    flat(root)
    shutil.copytree(root / "cat", root / "train")
    assert Folder(root).classes() == ["cat", "dog", "train"]


def test_a_folder_is_all_that_a_training_needs(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was picked and which images test is said once; the next command is the last line."""
    out = root.parent / "runs"
    main(
        [
            "train",
            "quick/exact",
            "--data",
            str(flat(root)),
            "--train.epochs",
            "2",
            "--train.no-measure",
            "--out",
            str(out),
        ]
    )
    (folder,) = out.iterdir()
    summary, recipe = (json.loads((folder / name).read_text()) for name in ("summary.json", "recipe.json"))
    assert "4 of 24 images" in summary["split_off"]
    assert summary["test_images"] == 4
    assert recipe["data"] | {"root": str(root), "resize": 32} == recipe["data"]
    assert (recipe["train"]["batch_size"], recipe["train"]["epochs"]) == (8, 2)
    said = capsys.readouterr()
    both = said.out + said.err
    assert both.count("set apart for testing") == 1
    assert (
        "images of 32 x 32 pixels (--data.resize), batches of 8 (--train.batch-size). The flags choose others." in both
    )
    assert said.out.splitlines()[-1] == f"Next: vix predict {folder} IMAGE, or vix report {out}"


def test_models_of_a_comparison_get_the_same_images(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = root.parent / "runs"
    few = ["--epochs", "1", "--jobs", "2", "--train.no-measure", "--out", str(out)]
    main(["compare", "quick/exact", "quick/fourier", "--data", str(flat(root)), *few])
    recipes = [json.loads(path.read_text()) for path in out.glob("*/recipe.json")]
    assert [(r["data"]["name"], r["data"]["resize"], r["train"]["batch_size"]) for r in recipes] == [
        ("folder", 32, 8)
    ] * 2
    said = capsys.readouterr()
    assert (said.out + said.err).count("set apart for testing") == 1
    assert said.out.splitlines()[-1].startswith(f"Next: vix report {out}, or vix predict {out}/quick-")


@pytest.mark.parametrize(
    ("data", "says"), [("no/such", "there is no folder no/such: --data takes a folder"), ("cifar11", 'mean "cifar10"')]
)
def test_data_that_is_neither_a_set_nor_a_folder(data: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "quick/exact", "--data", data])
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_gray_images_for_models_that_know_them(root: Path) -> None:
    recipe = Recipe(data=Data(name="folder", root=str(root), resize=8, gray=True), train=Train(batch_size=8))
    assert load_parts(recipe, torch.device("cpu")).train.images.shape == (1, 8, 8)


def test_folders_beside_train_are_named(root: Path) -> None:
    """They were ignored without a word."""
    for name in ("daisy", "roses", "notes"):
        (root / name).mkdir()
    image().save(root / "daisy/1.png")
    image().save(root / "roses/1.png")
    assert Folder(root).unused() == ["daisy", "roses"]
    recipe = load_recipe("quick/exact")
    asked = {"": replace(recipe, data=replace(recipe.data, name="folder", root=str(root)))}
    with pytest.warns(Note, match="photos has a folder train, so its other folders of images are not used: daisy, ros"):
        suited(asked, ())
    shutil.rmtree(root / "train")
    shutil.rmtree(root / "test")
    shutil.rmtree(root / "notes")
    assert Folder(root).unused() == []
    assert Folder(root).classes() == ["daisy", "roses"]
