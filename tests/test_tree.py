"""The tree of the package: imports go one way in all of it, a name means one thing, and types say something."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from pathlib import Path

from pydantic.fields import FieldInfo
from typing_extensions import get_type_hints

from vixformer.backbones.base import Backbone, Rate

PACKAGE = Path(__file__).parent.parent / "vixformer"
FILES = sorted(PACKAGE.rglob("*.py"))
CONTRACT = (PACKAGE.parent / "pyproject.toml").read_text().split("[[tool.importlinter.contracts]]")[1]


def test_import_linter_covers_every_module() -> None:
    there = {f"vixformer.{path.relative_to(PACKAGE).parts[0].removesuffix('.py')}" for path in FILES}
    covered = set(re.findall(r"vixformer\.\w+", CONTRACT))
    assert there - covered == {"vixformer.__init__"}, "give them a layer in pyproject.toml"
    assert covered <= there


def test_dropout_says_which_fields_are_rates_of_it() -> None:
    rates = [part for part in Rate.__metadata__ if isinstance(part, FieldInfo)]
    for backbone in Backbone.members.values():
        hints = get_type_hints(backbone.Config, include_extras=True)
        found = {name for name, hint in hints.items() if any(part in str(hint) for part in map(str, rates))}
        assert found == set(backbone.Config.dropout)


def test_suppressions_and_any_stay_rare() -> None:
    text = {path: path.read_text() for path in FILES}
    suppressed = [f"{p.name}: {s}" for p, t in text.items() for s in re.findall(r"type: ignore|pyright: ignore|noqa", t)]
    assert len(suppressed) <= 10, suppressed


def test_types_ship() -> None:
    assert (PACKAGE / "py.typed").exists()
