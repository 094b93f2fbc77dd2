"""What can vary, how it is written, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.recipes import tiny
from vixformer import load_recipe
from vixformer.experiments.search import spaces
from vixformer.experiments.search.space import SPACES, Choice, Range, Space, read_space, space_from_dict


def test_words() -> None:
    space = read_space(
        "train.lr=1e-4..1e-2:log; model.depth=1..4; train.batch_size=64|128; model.attention=performer(features={m});"
        " m=8|16"
    )
    assert space.varied == {
        "train.lr": Range(1e-4, 1e-2, log=True),
        "model.depth": Range(1, 4),
        "train.batch_size": Choice((64, 128)),
        "m": Choice((8, 16)),
    }
    assert [d.whole for d in space.varied.values() if isinstance(d, Range)] == [False, True]
    found = space.applied(tiny(), {"train.lr": 1e-3, "model.depth": 3, "train.batch_size": 64, "m": 16})
    assert (found.train.lr, found.train.batch_size, found.model.attention) == (1e-3, 64, "performer(features=16)")
    assert found.to_dict()["model"]["depth"] == 3


def test_a_file_says_the_same(tmp_path: Path) -> None:
    values = {
        "train.lr": {"log": [1e-4, 1e-2]},
        "optimizer": {"sgd": {"train.optimizer": "sgd", "train.schedule": "cosine"}},
        "layers": ["softmax"],
    }
    path = tmp_path / "space.json"
    path.write_text(json.dumps(values))
    space = read_space(str(path))
    assert space == space_from_dict(values)
    found = space.applied(tiny(), {"train.lr": 1e-3, "optimizer": "sgd", "layer0": "softmax", "layer1": "hedgehog"})
    assert (found.train.optimizer, found.train.schedule, found.model.attention) == (
        "sgd",
        "cosine",
        "softmax + hedgehog",
    )


def test_grids() -> None:
    space = read_space("train.batch_size=16|32; train.seed=1|2|3")
    assert space.size(2) == len(list(space.grid(2))) == 6
    layers = space_from_dict({"layers": ["softmax", "hedgehog"]})
    assert len(list(layers.grid(3))) == 8
    with pytest.raises(ValueError, match=r"a grid needs a list of values, and train.lr is a range"):
        list(read_space("train.lr=1..2").grid(1))


@pytest.mark.parametrize("name", SPACES)
def test_every_named_space_fits_its_recipe(name: str) -> None:
    recipes = {
        "cifar-kernels/vit": "cifar-kernels/vit",
        "hybrid/layouts": "hybrid/mnist/all-standard",
        "layers": "hybrid/mnist/all-standard",
    }
    recipe = load_recipe(recipes.get(name, "cifar-kernels/relu"))
    space = SPACES[name]()
    space.check(recipe)
    depth: Any = getattr(recipe.model, "depth", 1)
    last = {n: d.values[-1] if isinstance(d, Choice) else d.low for n, d in space.variables(depth).items()}
    assert space.applied(recipe, last) != recipe


def test_the_spaces_of_the_documents() -> None:
    assert {
        name: SPACES[name]().size(4) for name in ("cifar-kernels/vit", "cifar-kernels/exp-grid", "hybrid/layouts")
    } == {
        "cifar-kernels/vit": 2**8,
        "cifar-kernels/exp-grid": 4 * 5 * 2 * 3 * 5 * 3 * 3,
        "hybrid/layouts": 25,
    }
    assert len(spaces.layouts()) == len(set(spaces.layouts()))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("relu", 'unknown space "relu"'),
        ("nowhere.json", "cannot read nowhere.json"),
        ("train.lr=", "write NAME=VALUES"),
        ("train.lr=a..b", "train.lr: a range has two numbers, not a..b"),
        ("train.lr=2..1", "train.lr: a range goes up: 2..1 does not"),
        ("train.lr=0..1:log", "train.lr: a log range starts above 0"),
        ("model.attention=performer(features={m})", "nothing varies in this space"),
    ],
)
def test_sentences_about_words(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace("{", r"\{")):
        read_space(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trian.lr=1|2", 'trian.lr: unknown section "trian"'),
        ("train.lrr=1|2", 'train.lrr: unknown field of train "lrr"'),
        ("features=1|2", '"features" is not a field of a recipe'),
        (
            "model.attention=performer(features={m}); train.seed=1|2",
            "a template names {m}, which the space has no values for",
        ),
    ],
)
def test_sentences_about_fields(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("{", r"\{")):
        read_space(words).check(tiny())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"optimizer": {"adam": {"lr": 1}}},
            '"lr" is not a field of a recipe: fields that go together are written in full',
        ),
        ({"optimizer": {"adam": {"train.lr": [1]}}}, "optimizer: a value must be a word, a number"),
        ({"train.lr": [[1], [2]]}, r"train.lr: a value must be a word, a number, true, false or null, not \[1\]"),
        ({"optimizer": {}}, "optimizer: give it a range"),
        ({"layers": 3}, "layers: give a list of attentions, not 3"),
        ({"layers": ["softmax"], "o": {"a": {"train.optimizer": "{x}"}}}, "a template names {x}"),
    ],
)
def test_sentences_about_files(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        space_from_dict(values).check(tiny())


def test_a_template_is_no_format() -> None:
    space = space_from_dict(
        {"width": [16], "model.attention": "softmax{width:>9}{width.__class__}", "model.embed_dim": "{width}"}
    )
    with pytest.raises(ValueError, match=r'cannot read the layout "softmax\{width:>9\}|attention'):
        space.applied(tiny(), {"width": 16}).build()


def test_an_empty_choice() -> None:
    with pytest.raises(ValueError, match=r"train.lr: a choice needs at least one value"):
        space_from_dict({"train.lr": []})
    with pytest.raises(ValueError, match=r'train.lr: unknown kind of range "rang"'):
        space_from_dict({"train.lr": {"rang": [1, 2]}})
    assert Space({"train.lr": Choice((1,))}).size(1) == 1
