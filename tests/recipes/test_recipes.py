"""Every table of the five documents is a set of recipes, and every recipe works."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.support.attentions import slow_unless
from vixformer import list_recipes, load_recipe
from vixformer.config import Recipe, read_recipe
from vixformer.data.dataset import DataSet, Images
from vixformer.documents import DOCUMENTS
from vixformer.recipes.lens import EPOCH, SETTINGS
from vixformer.training.optim import learning_rate, make_optimizer

ALIKE = {name for name in list_recipes("atlas/*") if "/cifar10-" not in name or name.endswith("-converted")}
NAMES = [name for name in list_recipes() if "-as-printed/" not in name and name not in ALIKE]
"""Without those whose models are those of the others, or differ in the size of the patches alone."""
CLASSES = {"cifar100": 100, "tiny-imagenet": 200, "synthetic": 1000}


def reported(document: str) -> list[str]:
    return list(DOCUMENTS[document].printed)


@pytest.mark.parametrize(
    ("document", "counts"),
    [
        ("fast-attention", {f"fast-attention/exp{i}": 4 for i in range(1, 10)}),
        ("cifar-kernels", {"cifar-kernels": 15}),
        ("linear-tests", {"linear-tests/mnist": 9, "linear-tests/cifar10": 9}),
        ("hybrid", {"hybrid/mnist": 41, "hybrid/cifar10": 49, "hybrid/imagenet": 9}),
        ("xformers", {"xformers/cifar10": 38, "xformers/tiny-imagenet": 24}),
    ],
)
def test_every_row_of_every_table_has_a_recipe(document: str, counts: dict[str, int]) -> None:
    rows = reported(document)
    assert Counter(name.rpartition("/")[0] for name in rows) == counts
    assert set(rows) <= set(list_recipes())


def test_beyond_the_tables() -> None:
    assert len(list_recipes("linear-tests/cifar100/*")) == 23
    # the ablation: two kernels, four numbers of features
    assert len(list_recipes("linear-tests/mnist/performer-*-*[0-9]")) == 8
    assert len(list_recipes("linear-tests/mnist/*-from-checkpoint")) == 3
    assert len(list_recipes("hybrid/imagenet16/*")) == 9
    assert {"hybrid/mnist/first-relu-8", "xformers/cifar10/vip-softmax", "cifar-kernels/vit-pretrained"} <= set(
        list_recipes()
    )


def images_for(recipe: Recipe) -> Images:
    shape = DataSet.member(recipe.data.name).shape
    classes = tuple(map(str, range(CLASSES.get(recipe.data.name, 10))))
    return Images.all(torch.randint(256, (2, *shape), dtype=torch.uint8), torch.tensor([0, 1]), classes)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_builds_and_survives_json(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    (tmp_path / "recipe.json").write_text(recipe.to_json())
    assert read_recipe(tmp_path / "recipe.json") == recipe
    images = images_for(recipe)
    with torch.device("meta"):
        model: Any = recipe.build(images)
    side = recipe.data.resize or images.shape[1]
    fits = (images.shape[0], (side, side), len(images.classes))
    assert (model.config.in_chans, model.img_size, model.config.num_classes) == fits
    assert model.attention_expression()
    assert make_optimizer(model, recipe.train).param_groups


def covering() -> set[str]:
    """Recipes that together have every mechanism and every kernel in every backbone, as far as any has, and every
    optimizer."""
    seen, chosen = set[Any](), set[str]()
    for name in NAMES:
        recipe: Any = load_recipe(name)
        words = re.findall(r"kernel=\w+|(?<![=\w])[a-z]+(?![\w=])", recipe.model.attention)
        new = {recipe.train.optimizer, *((type(recipe.model), word) for word in words)} - seen
        if new:
            seen |= new
            chosen.add(name)
    return chosen


COVERING = covering()


@pytest.mark.parametrize("name", [slow_unless(name in COVERING, name) for name in NAMES])
def test_a_recipe_takes_a_step(name: str) -> None:
    recipe = load_recipe(name)
    images = images_for(recipe)
    torch.manual_seed(0)
    model: Any = recipe.build(images)
    optimizer = make_optimizer(model, recipe.train)
    scores = model.train()(torch.randn(2, images.shape[0], *model.img_size))
    assert scores.shape == (2, len(images.classes))
    F.cross_entropy(scores, images.labels).backward()
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(recipe.train, 0.5)
    before = model.head.state_dict()
    before = {key: value.clone() for key, value in before.items()}
    optimizer.step()
    assert all(p.isfinite().all() for p in model.parameters())
    assert any(not torch.equal(value, before[key]) for key, value in model.head.state_dict().items())


@pytest.mark.parametrize("where", list(SETTINGS))
def test_rivals_of_prism_have_its_parameters_budget_and_data(where: str) -> None:
    """Parameters within 2 %."""
    ours = load_recipe(f"lens/{where}/prism")
    images = Images.all(
        torch.zeros(2, *DataSet.member(ours.data.name).shape, dtype=torch.uint8), torch.tensor([0, 1]), ("a", "b")
    )
    sizes = {}
    for name in SETTINGS[where].names:
        recipe = load_recipe(f"lens/{where}/{name}")
        sizes[name] = sum(p.numel() for p in recipe.build(images).parameters())
        parent = 0 if recipe.train.weights is None else load_recipe(recipe.train.weights).train.epochs
        assert recipe.data == ours.data
        assert recipe.train.batch_size == ours.train.batch_size
        assert recipe.train.epochs + recipe.train.distill / EPOCH + parent == ours.train.epochs
    assert {name: size for name, size in sizes.items() if abs(size / sizes["prism"] - 1) > 0.02} == {}


def test_rows_from_a_checkpoint_start_from_the_same_network() -> None:
    found = list_recipes("linear-tests*-from-checkpoint")
    assert len(found) == 15  # three a data set, and those of MNIST and CIFAR-10 as printed
    for name in found:
        recipe = load_recipe(name)
        assert recipe.train.weights == name.rpartition("/")[0] + (
            "/transformer" if "linformer" in name else "/keras-transformer"
        )
        parent = load_recipe(str(recipe.train.weights))
        assert replace(recipe.model, attention="softmax") == parent.model  # pyright: ignore[reportCallIssue]
        assert recipe.data == parent.data
        assert recipe.model == load_recipe(name.removesuffix("-from-checkpoint")).model
