"""Recipes and names of runs that start from a trained model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.models import small_vit
from tests.support.recipes import tiny
from tests.support.runs import recorded, write_run
from vixformer.config import FINE_TUNING, Data, Recipe
from vixformer.conversion.run import converted_recipe, finetuned_name, finetuned_recipe, name_of, recipe_of
from vixformer.data.preprocess import Preprocessing


def preprocessing(size: tuple[int, int], channels: int = 3) -> Preprocessing:
    values = (0.25,) * channels
    return Preprocessing(classes=("a", "b"), channels=channels, stored=(32, 32), size=size, mean=values, std=values)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model without a recipe."""
    small_vit().save_pretrained(tmp_path / "mine")
    return tmp_path / "mine"


def test_a_model_without_a_recipe_needs_a_data_set(folder: Path) -> None:
    model = small_vit()
    with pytest.raises(ValueError, match=r"mine is a model without a recipe: say which images it is for"):
        recipe_of(folder, model, None)
    assert recipe_of(folder, model, "cifar10") == Recipe(data=Data(name="cifar10"), model=model.config)


@pytest.mark.parametrize(("size", "resize"), [((32, 32), None), ((16, 16), 16)])
def test_images_are_brought_to_the_size_that_the_model_knows(
    size: tuple[int, int], resize: int | None, folder: Path
) -> None:
    preprocessing(size).save(folder)
    data = recipe_of(folder, small_vit(), "cifar10").data
    assert (data.resize, data.mean, data.std) == (resize, (0.25,) * 3, (0.25,) * 3)


def test_the_recipe_of_a_run_is_its_own_and_may_get_other_images(tmp_path: Path) -> None:
    run = recorded("hybrid/mnist/first-relu-64")[0]
    write_run(run, tmp_path)
    assert recipe_of(tmp_path, small_vit(), None) == run.recipe
    assert recipe_of(tmp_path, small_vit(), "cifar10") == replace(
        run.recipe, data=replace(run.recipe.data, name="cifar10")
    )


def test_a_converted_run_is_fine_tuned_at_a_lower_rate_and_only_once(folder: Path) -> None:
    model: Any = small_vit()
    parent = replace(tiny(lr=0.01, epochs=20), model=model.config)
    child = converted_recipe(parent, folder, model, "hedgehog", 7, 3)
    assert (child.train.lr, child.train.epochs, child.train.distill) == (FINE_TUNING * 0.01, 3, 7)
    assert child.train.weights == str(folder.resolve())
    assert child.model.attention == "hedgehog"
    assert converted_recipe(child, folder, model, "cosine", 7, 3).train.lr == child.train.lr
    with pytest.raises(ValueError, match="layer 0 cannot go from softmax to mlp"):
        converted_recipe(parent, folder, model, "mlp", 7, 3)


@pytest.mark.parametrize("known", [True, False])
def test_a_fine_tuned_run_sees_images_as_the_model_does(known: bool, folder: Path, tmp_path: Path) -> None:
    model: Any = small_vit(img_size=32, in_chans=1)
    if known:
        preprocessing((32, 32), 1).save(folder)
    recipe = finetuned_recipe(folder, model, tmp_path / "photos", None)
    data, train = recipe.data, recipe.train
    assert (data.name, data.root) == ("folder", str((tmp_path / "photos").resolve()))
    assert (data.resize, data.crop, data.flip, data.gray) == (32, 4, True, True)
    assert (data.mean, data.std) == (((0.25,), (0.25,)) if known else (None, None))
    assert (train.epochs, train.batch_size, train.lr, train.weight_decay) == (5, 32, 5e-4, 0.05)
    assert (train.schedule, train.clip, train.label_smoothing) == ("onecycle", 1.0, 0.1)
    assert (train.monitor, train.precision, train.weights) == ("val_loss", "float32", str(folder.resolve()))
    assert recipe.model.num_classes is None
    assert recipe.model.attention == model.config.attention
    assert not finetuned_recipe(folder, small_vit(), tmp_path, None).data.gray


def test_a_fine_tuned_run_flips_images_where_its_parent_did(tmp_path: Path) -> None:
    run = recorded("hybrid/mnist/first-relu-64")[0]
    for flip in (True, False):
        parent = replace(run, recipe=replace(run.recipe, data=replace(run.recipe.data, flip=flip)))
        write_run(parent, tmp_path)
        assert finetuned_recipe(tmp_path, small_vit(), tmp_path, None).data.flip is flip


def test_a_fine_tuned_run_may_have_other_attention(folder: Path, tmp_path: Path) -> None:
    model: Any = small_vit()
    assert finetuned_recipe(folder, model, tmp_path, "softmax + hedgehog").model.attention == "softmax + hedgehog"
    with pytest.raises(ValueError, match="layer 1 cannot go from softmax to fourier"):
        finetuned_recipe(folder, model, tmp_path, "softmax + fourier")
    with pytest.raises(ValueError, match=r"the model is for images of 16 x 32, and images of a folder are square"):
        finetuned_recipe(folder, small_vit(img_size=(16, 32)), tmp_path, None)


def test_names_say_the_parent_and_the_attention(folder: Path, tmp_path: Path) -> None:
    assert finetuned_name(folder, tmp_path / "photos", None) == "mine-on-photos"
    assert finetuned_name(folder, tmp_path / "photos", "first(lens(power=2))") == "mine-on-photos-to-first-lens-power-2"
    child = converted_recipe(replace(tiny(), model=small_vit().config), folder, small_vit(), "hedgehog + softmax", 0, 1)
    assert name_of(folder, child) == "mine-to-hedgehog-softmax"
    run = tmp_path / "relu-seed0-0123456789ab"
    assert name_of(run, child) == "relu-to-hedgehog-softmax"
    assert finetuned_name(run, tmp_path / "b", None) == "relu-on-b"
