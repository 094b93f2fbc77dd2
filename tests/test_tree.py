"""The tree of the package: a name means one thing, and types say something. Imports are import-linter's."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

from vixformer.backbones.backbone import Backbone, Rate

PACKAGE = Path(__file__).parent.parent / "vixformer"
FILES = sorted(PACKAGE.rglob("*.py"))
TESTS = Path(__file__).parent
WHOLE = {
    "test_damage": "damaged files of every kind",
    "test_docs": "the pages",
    "test_docs_commands": "the commands on the pages",
    "test_examples": "the programs in examples/",
    "test_imports": "every module, where something is missing",
    "test_package": "what is shipped",
    "test_security": "what SECURITY.md promises",
    "test_tree": "the tree of the package and of its tests",
}
"""Tests of the whole product; every other test module is that of a module."""


def test_dropout_says_which_fields_are_rates_of_it() -> None:
    for backbone in Backbone.members.values():
        hints = get_type_hints(backbone.Config, include_extras=True)
        found = {name for name, hint in hints.items() if hint == Rate or Rate in get_args(hint)}
        assert found == set(backbone.Config.dropout)


def test_suppressions_and_any_stay_rare() -> None:
    text = {path: path.read_text() for path in FILES}
    assert len(text) > 200
    suppressed = [
        f"{p.name}: {s}" for p, t in text.items() for s in re.findall(r"type: ignore|pyright: ignore|noqa", t)
    ]
    assert len(suppressed) <= 10, suppressed
    stands = Counter(path.name for path, t in text.items() for _ in _any_in(t))
    assert sum(stands.values()) <= 120, stands.most_common()


def test_any_is_counted_in_code_alone() -> None:
    found = list(_any_in('"""Any."""\nfrom typing import Any\nx: dict[str, Any]  # Any\n'))
    assert found == ["Any", "Any"]


def _any_in(source: str) -> Iterator[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return (token.string for token in tokens if token.type == tokenize.NAME and token.string == "Any")


def test_types_ship() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert '"py.typed"' in (PACKAGE.parent / "pyproject.toml").read_text()


def test_a_module_name_means_one_thing() -> None:
    """A command has the name of what it shows, a mechanism that of its operation, a recipe that of its claims, or of
    what it tries."""
    where: dict[str, set[str]] = {}
    for path in FILES:
        where.setdefault(path.stem, set()).add(path.parent.relative_to(PACKAGE).as_posix())
    same = [{"attention", "ops"}, {"documents", "recipes"}, {"attention", "recipes"}, {"measure", "recipes"}]
    for name, folders in where.items():
        others = folders - {"commands"}
        alone = len(others) <= 1 or others in same or name == "__init__"
        assert alone, f"{name}.py is in {', '.join(sorted(folders))}"


def _of_a_module(path: Path) -> bool:
    """tests/x/test_y.py is of vixformer/x/y.py, of the package vixformer/x/y/ or, where x is y, of vixformer/x/.
    tests/x/test_y_subject.py is a part of it. The same holds for tests/tools/."""
    place, words = path.parent.relative_to(TESTS), path.stem.removeprefix("test_").split("_")
    folder = PACKAGE.parent / place if place.parts[:1] == ("tools",) else PACKAGE / place
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return any(
        (folder / f"{name}.py").exists()
        or (folder / name / "__init__.py").exists()
        or (place.parts and name == folder.name)
        for name in names
    )


def test_tests_are_where_what_they_test_is() -> None:
    found = sorted(TESTS.rglob("test_*.py"))
    assert len(found) > 100
    alone = {path.stem for path in found if not _of_a_module(path)}
    assert alone == set(WHOLE)


def test_test_modules_are_short_and_nothing_imports_from_them() -> None:
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        assert not re.search(r"^\s*(from|import) [^\n]*\btest_", text, re.MULTILINE), path
        if path.stem.startswith("test_"):
            assert len(text.splitlines()) <= 300, path
        else:
            assert not re.search(r"^(async )?def test_", text, re.MULTILINE), path
    for folder in ("benchmarks", "tools"):
        for path in (TESTS.parent / folder).rglob("*.py"):
            assert not re.search(r"^\s*(from|import) tests[.\w]*\.test_", path.read_text(), re.MULTILINE), path
