"""What the documents say of their networks and training is what their recipes do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from vixformer import list_recipes, load_recipe
from vixformer.attention.layout import parse
from vixformer.attention.project.projection import mechanism_of
from vixformer.attention.softmax import Softmax
from vixformer.config import Recipe
from vixformer.data.dataset import Images
from vixformer.experiments.search.space import Choice, Range, Space, read_space
from vixformer.training.optim import learning_rate

PHOTOGRAPHS = Images.all(
    torch.zeros(1, 3, 32, 32, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64), tuple("abcdefghij")
)


def built(recipe: Recipe, **options: Any) -> Any:
    torch.manual_seed(0)
    model: Any = recipe.model
    return replace(recipe, model=replace(model, **options)).build(PHOTOGRAPHS).eval()


def space(name: str) -> Space:
    import vixformer.experiments.search.spaces  # noqa: F401

    return read_space(f"cifar-kernels/{name}")


@pytest.mark.parametrize(("name", "alpha"), [("elu-1", 1.0), ("elu-2", 0.5), ("elu-3", 0.3), ("elu-4", 0.25)])
def test_elu_has_its_alpha_everywhere(name: str, alpha: float) -> None:
    model = built(load_recipe(f"cifar-kernels/{name}"), embed_dim=32)
    found = [module.alpha for module in model.modules() if isinstance(module, nn.ELU)]
    assert found == [alpha] * 4  # three convolutions and the embedding
    cores: list[Any] = [mechanism_of(module) for module in model.attentions()]
    assert {core.kernel.config.alpha for core in cores} == {alpha}


def test_spaces_vary_alpha_everywhere() -> None:
    recipe = load_recipe("cifar-kernels/elu-1")
    for rounds in (space("elu-first"), space("elu-wider")):
        found = {name: d.values[0] for name, d in rounds.variables(1).items() if isinstance(d, Choice)} | {"alpha": 0.5}
        model: Any = rounds.applied(recipe, found).model
        assert model.act == "elu(0.5)"
        assert "alpha=0.5" in model.attention


def test_adamw_of_a_space_is_that_of_its_recipe() -> None:
    printed = load_recipe("cifar-kernels/elu-4").train
    found = {name: d.values[0] for name, d in space("elu-wider").variables(1).items() if isinstance(d, Choice)} | {
        "optimizer": "adamw"
    }
    train = space("elu-wider").applied(load_recipe("cifar-kernels/elu-1"), found).train
    assert (train.optimizer, train.weight_decay, train.decays) == (
        printed.optimizer,
        printed.weight_decay,
        printed.decays,
    )


def test_the_space_of_relu_is_that_of_its_text() -> None:
    varied = space("relu").variables(4)
    assert varied["features"] == Range(128, 512)
    widths, heads = varied["model.embed_dim"], varied["model.num_heads"]
    assert isinstance(widths, Choice)
    assert (min(widths.values), max(widths.values)) == (256, 960)  # pyright: ignore[reportArgumentType]
    assert heads == Choice((8, 12, 16))


@torch.no_grad()
def test_the_vit_of_optimizing_image_classification() -> None:
    model = built(load_recipe("cifar-kernels/vit"), embed_dim=32, depth=2, mlp_dim=48)
    assert isinstance(model.norm, nn.LayerNorm)
    x = torch.randn(2, 10, 32)
    block = model.blocks[1]
    y = block.norm1(x + block.attn(x))
    fed = block.mlp.fc2(torch.relu(block.mlp.fc1(y)))
    assert torch.allclose(block(x), block.norm2(y + fed), atol=1e-6)
    images = torch.randn(2, 3, 32, 32)
    *_, (tokens, _) = model.run(images)
    assert torch.allclose(model(images), model.head(model.norm(tokens)[:, 0]), atol=1e-6)


def test_kernels_on_a_grid_differ_in_attention_alone() -> None:
    recipes = {name: load_recipe(name) for name in list_recipes("cifar-kernels-grid/*")}
    assert [name.partition("/")[2] for name in recipes] == ["elu", "exact", "exp", "gelu", "mixture", "mlp", "relu"]
    printed = load_recipe("cifar-kernels/gelu-1")
    outputs = []
    for recipe in recipes.values():
        model: Any = recipe.model
        assert replace(recipe, model=replace(model, attention="softmax")) == replace(
            recipes["cifar-kernels-grid/exact"], model=replace(model, attention="softmax")
        )
        assert (model.embed_dim, model.num_heads, model.depth) == (768, 16, 1)
        assert recipe.train == printed.train
        network = built(recipe, embed_dim=64, conv_dims=(8, 8, 8))
        images = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        assert network.attention_inputs(images)[0][1].shape == (1, 256, 64)
        outputs.append(network(images))
    assert all(not torch.allclose(a, b, atol=1e-6) for a, b in pairwise(outputs))


@pytest.mark.parametrize(("name", "last"), [("exp1", 0.0), ("exp5", 0.0), ("exp8", 0.02)])
def test_warm_restarts_end_with_a_low_rate(name: str, last: float) -> None:
    train = load_recipe(f"fast-attention/{name}/vit").train
    assert train.restart_growth == 2
    assert learning_rate(train, train.epochs - 1e-6) <= last * train.lr + 1e-9


def test_exact_attention_drops_weights_as_its_tables_say() -> None:
    for name in list_recipes("fast-attention*/*/vit"):
        model: Any = load_recipe(name).model
        (layer,) = set(parse(model.attention).expand(model.depth))
        assert isinstance(layer, Softmax.Config)
        assert layer.drop == model.drop_rate > 0


def test_settings_of_public_code() -> None:
    for name in list_recipes("hybrid*/*"):
        recipe = load_recipe(name)
        model: Any = recipe.model
        assert (recipe.train.redraw_every, recipe.train.decays, model.pos_std, model.norm_eps) == (
            None,
            "all",
            0.02,
            1e-5,
        )
        assert recipe.data.interpolation == ("bilinear" if "imagenet" in name else "nearest")
    model = built(load_recipe("hybrid/cifar10/all-standard"))
    assert model.pos.embed.std().item() == pytest.approx(0.02, rel=0.05)
    assert {module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)} == {1e-5}


@pytest.mark.parametrize("document", ["fast-attention", "cifar-kernels", "linear-tests", "hybrid", "xformers"])
def test_as_printed_is_the_recipe_with_all_training_images(document: str) -> None:
    names = list_recipes(f"{document}-as-printed/*")
    assert names
    for name in names:
        recipe, here = load_recipe(name), load_recipe(name.replace("-as-printed", "", 1))
        assert recipe.model == here.model
        assert replace(recipe.data, val_fraction=here.data.val_fraction, folds=here.data.folds) == here.data
        assert (recipe.data.val_fraction, recipe.data.folds, recipe.train.patience) == (0.0, None, None)
        assert recipe.train.weights is None or recipe.train.weights in list_recipes(f"{document}-as-printed/*")


@pytest.mark.parametrize("document", ["fast-attention", "cifar-kernels", "linear-tests", "hybrid", "xformers"])
def test_the_largest_and_the_last_test_accuracy_are_recorded(document: str) -> None:
    names = [name for name in list_recipes(f"{document}*/*") if "/imagenet" not in name]  # noise, to be timed
    assert [name for name in names if not load_recipe(name).train.track_test] == []


def test_features_are_drawn_once_where_public_code_or_an_algorithm_says_so() -> None:
    for pattern in ("cifar-kernels*/*", "hybrid*/*", "xformers*/*"):
        assert {load_recipe(name).train.redraw_every for name in list_recipes(pattern)} == {None}


def test_kernels_of_optimizing_image_classification() -> None:
    relu, ftheta = (load_recipe(f"cifar-kernels/{name}") for name in ("relu", "ftheta"))
    assert {mechanism_of(module).bias.shape for module in built(relu, embed_dim=64).attentions()} == {(256,)}
    assert (ftheta.train.weight_decay, ftheta.train.decays) == (1e-4, "all")
    assert "raw=true" in load_recipe("cifar-kernels/ftheta-raw").to_dict()["model"]["attention"]
    weighted = load_recipe("cifar-kernels/relu-weighted").train.class_weights
    assert weighted == (1.0, 1.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0)
