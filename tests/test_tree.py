"""The tree of the package: a name means one thing, and types say something. Imports are import-linter's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

from vixformer.backbones.backbone import Backbone, Rate

PACKAGE = Path(__file__).parent.parent / "vixformer"
FILES = sorted(PACKAGE.rglob("*.py"))


def test_dropout_says_which_fields_are_rates_of_it() -> None:
    for backbone in Backbone.members.values():
        hints = get_type_hints(backbone.Config, include_extras=True)
        found = {name for name, hint in hints.items() if hint == Rate or Rate in get_args(hint)}
        assert found == set(backbone.Config.dropout)


def test_suppressions_and_any_stay_rare() -> None:
    text = {path: path.read_text() for path in FILES}
    suppressed = [f"{p.name}: {s}" for p, t in text.items() for s in re.findall(r"type: ignore|pyright: ignore|noqa", t)]
    assert len(suppressed) <= 10, suppressed


def test_types_ship() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert '"py.typed"' in (PACKAGE.parent / "pyproject.toml").read_text()


def test_a_module_name_means_one_thing() -> None:
    """A command has the name of what it shows, a mechanism that of its operation, a recipe that of its claims, or of what it tries."""
    where: dict[str, set[str]] = {}
    for path in FILES:
        where.setdefault(path.stem, set()).add(path.parent.relative_to(PACKAGE).as_posix())
    same = [{"attention", "ops"}, {"documents", "recipes"}, {"attention", "recipes"}]
    for name, folders in where.items():
        others = folders - {"commands"}
        alone = len(others) <= 1 or others in same or name == "__init__"
        assert alone, f"{name}.py is in {', '.join(sorted(folders))}"
