"""Recipes: reading, writing, checking, and every one that has a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vixformer as vix
from vixformer.config import Data, Recipe, Train, read_recipe


def test_hybrid_recipes_are_those_of_the_document() -> None:
    assert len(vix.list_recipes("hybrid/mnist/*")) == 1 + 4 * 2 * 6
    recipe = vix.load_recipe("hybrid/mnist/first-relu-64")
    assert recipe.model.attention == "first(performer(kernel=relu, features=64))"
    assert (recipe.train.lr, recipe.train.batch_size, recipe.train.optimizer, recipe.train.seed) == (
        1e-3,
        128,
        "adamw",
        42,
    )
    assert recipe.data.std == (0.5,)


def test_models_take_what_they_lack_from_the_data() -> None:
    model: Any = vix.load_recipe("quick/exact").build()
    assert (model.img_size, model.config.in_chans, model.config.num_classes) == ((28, 28), 1, 10)
    resized: Any = Recipe(data=Data(resize=72)).build()
    assert resized.img_size == (72, 72)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "is no recipe"),
        ('{"data": 3}', "is no recipe"),
        ('{"modle": {}}', 'unknown section of .* "modle"; did you mean "model"'),
        ('{"train": {"epoch": 3}}', 'unknown option of .*train "epoch"; did you mean "epochs"'),
        ('{"train": {"epochs": -1}}', "epochs must be greater than or equal to 0, not -1"),
        ('{"train": {"epochs": "many"}}', "epochs must be a whole number"),
        ('{"train": {"optimizer": "lion"}}', "optimizer must be adam, adamw, sgd or muon, not 'lion'"),
        ('{"train": {"lr": -1}}', "lr must be greater than 0"),
        ('{"data": {"folds": 5, "fold": 5}}', "fold counts from 0 and must be below folds = 5, not 5"),
        ('{"data": {"fraction": 0}}', "fraction must be greater than 0"),
        ('{"model": {"name": "vitt"}}', 'unknown model "vitt"'),
        ('{"model": {"name": "vit", "depht": 3}}', 'unknown option of vit "depht"'),
    ],
)
def test_bad_recipes_are_one_sentence(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_recipe(path)
    assert "\n" not in str(caught.value)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match='unknown recipe "quick/exat"; did you mean "quick/exact"'):
        vix.load_recipe("quick/exat")
    with pytest.raises(ValueError, match=r"cannot read nowhere\.json"):
        vix.load_recipe("nowhere.json")
    with pytest.raises(ValueError, match='unknown data set "mnits"; did you mean "mnist"'):
        Data(name="mnits").source()
    with pytest.raises(ValueError, match="unknown data set"):
        Data(name="mnist:x").source()


def test_defaults_are_a_recipe() -> None:
    assert Recipe() == Recipe(data=Data(), train=Train())
