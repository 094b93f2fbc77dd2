"""What is picked for a folder of images where nobody says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from vixformer import load_recipe
from vixformer.config import Data, Recipe
from vixformer.experiments import suit
from vixformer.experiments.suit import Photographs, suited


def photographs(folder: Path, count: int, side: int) -> Path:
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", (side + 20, side)).save(folder / name / f"{i}.png")
    return folder


def on(folder: Path, name: str = "quick/exact") -> Recipe:
    recipe = load_recipe(name)
    return replace(recipe, data=replace(recipe.data, name="folder", root=str(folder)))


def test_small_sets_get_small_batches_more_epochs_and_a_size_that_they_have(tmp_path: Path) -> None:
    recipe = on(photographs(tmp_path, 50, 70))
    found, told = suited({"exact": recipe}, ())
    (picked,) = found.values()
    assert Photographs.of(recipe.data.source(), 0.1) == Photographs(count=72, classes=2, side=70)  # pyright: ignore[reportArgumentType]
    assert (picked.data.resize, picked.train.batch_size, picked.train.epochs) == (64, 8, suit.MOST_EPOCHS)
    assert picked.train.warmup == recipe.train.warmup * suit.MOST_EPOCHS / recipe.train.epochs
    for word in (
        "64 x 64 pixels (--data.resize)",
        "batches of 8 (--train.batch-size)",
        "100 epochs (--train.epochs)",
        "72 training images",
    ):
        assert word in told


def test_explicit_flags_stay(tmp_path: Path) -> None:
    recipe = on(photographs(tmp_path, 50, 70))
    mine = replace(recipe, data=replace(recipe.data, resize=48), train=replace(recipe.train, batch_size=16, epochs=2))
    assert suited({"exact": mine}, ("data.resize", "train.batch_size", "train.epochs")) == ({"exact": mine}, "")
    found, told = suited({"exact": replace(recipe, train=replace(recipe.train, epochs=2))}, ("train.epochs",))
    assert found["exact"].train.epochs == 2
    assert "--train.epochs" not in told


def test_recipes_of_one_comparison_get_the_same(tmp_path: Path) -> None:
    folder = photographs(tmp_path, 40, 200)
    found, _ = suited(
        {name: on(folder, name) for name in ("quick/exact", "quick/nystrom", "hybrid/cifar10/all-standard")}, ()
    )
    assert len({(r.data.resize, r.train.batch_size, r.train.epochs) for r in found.values()}) == 1


def test_recipes_of_photographs_keep_their_size(tmp_path: Path) -> None:
    found, told = suited({"lens": on(photographs(tmp_path, 20, 200), "photos/400/lens")}, ())
    assert found["lens"].data.resize == 160
    assert "--data.resize" not in told


def test_a_model_of_one_size_keeps_it(tmp_path: Path) -> None:
    recipe = on(photographs(tmp_path, 20, 200))
    found, _ = suited({"exact": replace(recipe, model=replace(recipe.model, img_size=28))}, ())
    assert found["exact"].data.resize == 28


def test_a_short_budget_picks_smaller_images_and_a_long_one_more_epochs(tmp_path: Path) -> None:
    recipe = on(photographs(tmp_path, 300, 200))
    (short, _), (long, _), (usual, _) = (suited({"exact": recipe}, (), seconds) for seconds in (2.0, 10_000.0, None))
    assert short["exact"].data.resize == 32
    assert long["exact"].data.resize == 192
    assert long["exact"].train.epochs > usual["exact"].train.epochs


def test_a_batch_fits_into_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suit, "memory", lambda: 8 * 2**20)
    recipe = on(photographs(tmp_path, 100, 64))
    found, told = suited({"exact": recipe}, ("data.resize",))
    assert found["exact"].train.batch_size < 8
    assert f"batches of {found['exact'].train.batch_size} " in told


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    photographs(tmp_path, 10, 32)
    (tmp_path / "cat" / "0.png").write_bytes(b"")
    (tmp_path / "cat" / "1.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"cat/\d.png is no image that can be read"):
        Photographs.of(Data(name="folder", root=str(tmp_path)).source(), 0.1)  # pyright: ignore[reportArgumentType]
