"""A recipe from a file: JSON that `vix show` writes, TOML and Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.plugins import file_of_the_page, forgotten
from vixformer import load_recipe

PYTHON = """
def recipe():
    return load_recipe("quick/exact").with_attention("mean")
"""


@pytest.fixture(autouse=True)
def _names_of_a_test_go_with_it() -> Iterator[None]:
    with forgotten():
        yield


def test_what_show_writes_is_the_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.json"
    file.write_text(run(capsys, "show", "quick/lens", "--json", "--depth", "3"))
    assert load_recipe(str(file)).model == load_recipe("quick/lens").model.owner.Config(
        **{**vars(load_recipe("quick/lens").model), "depth": 3}
    )
    assert load_recipe(str(file)).train == load_recipe("quick/lens").train


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML needs Python 3.11")
def test_toml(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[model]\nname = "vit"\nattention = "softmax"\ndepth = 3\n\n[train]\nlr = 0.002\n')
    recipe = load_recipe(str(file))
    assert (recipe.model.attention, recipe.train.lr, recipe.data.name) == ("softmax", 0.002, "fashion-mini")
    for text, words in (
        ("[train", "is not TOML"),
        ("[train]\nlr = -1", "train: lr must be greater than 0"),
        ("[train]\nlr = inf", "numbers must be finite"),
        ("[trian]\nlr = 1", 'unknown section of .*trian"; did you mean "train"'),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=words):
            load_recipe(str(file))


def test_python_with_an_attention_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(file_of_the_page() + PYTHON)
    assert load_recipe(str(file)).model.attention == "mean"
    few = ("--data.fraction", "0.02", "--train.epochs", "1", "--train.no-measure", "--out", str(tmp_path / "runs"))
    assert "mine-seed0" in run(capsys, "train", str(file), *few)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", r"mine.py has no function recipe\(\): write one that returns"),
        ("def recipe(): return {}", r"recipe\(\) in .*mine.py should return a vixformer.config.Recipe, not dict"),
        (
            "from vixformer.config import Recipe, Train\ndef recipe(): return Recipe(train=Train(lr=-1))",
            "train: lr must be greater than 0, not -1",
        ),
    ],
)
def test_python_that_is_no_recipe(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ValueError, match=words):
        load_recipe(str(tmp_path / "mine.py"))
