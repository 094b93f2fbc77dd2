"""Every table of the five documents is a set of recipes, and every recipe works."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from vixformer import list_recipes, load_recipe
from vixformer.config import read_recipe
from vixformer.data.base import DataSet, Images
from vixformer.recipes.lens import EPOCH, SETTINGS
from vixformer.training.optim import learning_rate, make_optimizer

REPORTED = Path(__file__).parents[2] / "docs/results/reported"
CLASSES = {"cifar100": 100, "tiny-imagenet": 200, "synthetic": 1000}


def reported(document: str) -> list[str]:
    return [row["recipe"] for row in csv.DictReader((REPORTED / f"{document}.csv").read_text().splitlines())]


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
    assert len(list_recipes("linear-tests/cifar100/*")) == 18
    assert len(list_recipes("linear-tests/mnist/performer-*-*[0-9]")) == 8  # the ablation: two kernels, four numbers of features
    assert len(list_recipes("linear-tests/mnist/*-from-checkpoint")) == 3
    assert len(list_recipes("hybrid/imagenet16/*")) == 9
    assert {"hybrid/mnist/first-relu-8", "xformers/cifar10/vip-softmax", "cifar-kernels/vit-pretrained"} <= set(list_recipes())


def models() -> list[str]:
    """A recipe for each model, data set and optimizer: what else they vary does not change whether a step can be made."""
    found = {}
    for name in sorted(list_recipes(), key=lambda name: "-as-printed/" in name):
        recipe = load_recipe(name)
        found.setdefault((recipe.data.name, recipe.data.resize, recipe.model, recipe.train.optimizer.removesuffix("w")), name)
    return list(found.values())


def test_recipes_survive_json(tmp_path: Path) -> None:
    for name in list_recipes():
        recipe = load_recipe(name)
        (tmp_path / "recipe.json").write_text(recipe.to_json())
        assert read_recipe(tmp_path / "recipe.json") == recipe, name


@pytest.mark.parametrize("name", models())
def test_a_recipe_builds_and_steps(name: str) -> None:
    recipe = load_recipe(name)
    shape = DataSet.member(recipe.data.name).shape
    classes = tuple(map(str, range(CLASSES.get(recipe.data.name, 10))))
    images = Images.all(torch.randint(256, (2, *shape), dtype=torch.uint8), torch.tensor([0, 1]), classes)
    torch.manual_seed(0)
    model: Any = recipe.build(images)
    assert model.attention_expression()
    side = recipe.data.resize or shape[1]
    optimizer = make_optimizer(model, recipe.train)
    scores = model.train()(torch.randn(2, shape[0], side, side))
    assert scores.shape == (2, len(classes))
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
    images = Images.all(torch.zeros(2, *DataSet.member(ours.data.name).shape, dtype=torch.uint8), torch.tensor([0, 1]), ("a", "b"))
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
        assert recipe.train.weights == name.rpartition("/")[0] + ("/transformer" if "linformer" in name else "/keras-transformer")
        parent = load_recipe(str(recipe.train.weights))
        assert replace(recipe.model, attention="softmax") == parent.model  # pyright: ignore[reportCallIssue]
        assert recipe.data == parent.data
        assert recipe.model == load_recipe(name.removesuffix("-from-checkpoint")).model
