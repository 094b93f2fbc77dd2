"""What a recipe is known by stays what it was, so that runs are found again.

Who changes recipes on purpose runs `python -m tests.recipes.test_catalog` and looks at which lines of content.json
changed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from vixformer import list_recipes, load_recipe
from vixformer.results.runs import content

FILE = Path(__file__).parent / "content.json"
"""Content hashes of recipes, without data."""


def contents() -> dict[str, str]:
    """Those `as-printed` are made from the others."""
    return {name: content(load_recipe(name), "") for name in list_recipes() if "-as-printed/" not in name}


def test_recipes_keep_their_content() -> None:
    assert contents() == json.loads(FILE.read_text())


def test_a_field_that_came_later_counts_where_it_is_not_at_its_default() -> None:
    recipe = load_recipe("quick/exact")
    assert "restart_growth" not in recipe.to_dict()["train"]
    assert recipe.to_dict(whole=True)["train"]["restart_growth"] == 1
    grown = replace(recipe, train=replace(recipe.train, restart_growth=2))
    assert grown.to_dict()["train"]["restart_growth"] == 2
    assert content(grown, "") != content(recipe, "")


if __name__ == "__main__":
    FILE.write_text(json.dumps(contents(), indent=0) + "\n")
