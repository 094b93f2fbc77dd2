"""List recipes, such as "hybrid/mnist/*"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vixformer.commands.flags import RecipeName
from vixformer.options import words
from vixformer.tables import Listed, say, table


@dataclass(frozen=True, kw_only=True)
class Options(Listed):
    patterns: tuple[RecipeName, ...] = words(("*",))
    """Names of recipes; * stands for any letters."""


def run(options: Options) -> None:
    from vixformer.recipes import list_recipes, load_recipe, unknown_recipe

    names: set[str] = set()
    for pattern in options.patterns:
        found = list_recipes(pattern)
        if not found:
            inside = list_recipes(f"{pattern}/*")
            hint = f"""no recipe is called "{pattern}"; there are {len(inside)} called '{pattern}/*'"""
            raise ValueError(hint if inside else unknown_recipe(pattern))
        names.update(found)
    rows = []
    for name in sorted(names, key=_by_numbers):
        r = load_recipe(name)
        pos, weights = getattr(r.model, "pos", ""), r.train.weights or ""
        rows.append(
            (
                name,
                r.data.name,
                r.model.attention,
                pos,
                weights,
                str(r.train.epochs),
                str(r.train.batch_size),
                f"{r.train.lr:g}",
            )
        )
    titles = ("recipe", "data", "attention", "positions", "from", "epochs", "batch", "rate")
    # what few differ in, where some were asked for: the whole list would be too wide
    some = len(names) < len(list_recipes("*"))
    kept = [
        i
        for i, title in enumerate(titles)
        if title not in ("positions", "from") or (some and len({row[i] for row in rows}) > 1)
    ]
    table(
        [titles[i] for i in kept],
        [[row[i] for i in kept] for row in rows],
        ("batch", "rate", "epochs", "positions", "from", "data"),
    )
    say(f"{len(names)} recipe{'' if len(names) == 1 else 's'}")


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """So that 16 comes before 128."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
