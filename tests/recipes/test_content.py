"""What a recipe is known by stays what it was, so that runs are found again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from vixformer import load_recipe
from vixformer.results.runs import content

KNOWN = json.loads((Path(__file__).parent / "content.json").read_text())
"""Content hashes of recipes, without data. Who changes a recipe on purpose changes its line."""


def test_recipes_keep_their_content() -> None:
    assert {name: content(load_recipe(name), "") for name in KNOWN} == KNOWN


def test_a_field_that_came_later_counts_where_it_is_not_at_its_default() -> None:
    recipe = load_recipe("quick/exact")
    assert "restart_growth" not in recipe.to_dict()["train"]
    assert recipe.to_dict(whole=True)["train"]["restart_growth"] == 1
    grown = replace(recipe, train=replace(recipe.train, restart_growth=2))
    assert grown.to_dict()["train"]["restart_growth"] == 2
    assert content(grown, "") != content(recipe, "")
