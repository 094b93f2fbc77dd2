"""Names that a test adds go with it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from vixformer import plugins
from vixformer.recipes import RECIPES
from vixformer.registry import Named

PAGE = Path(__file__).parents[2] / "docs" / "adding.md"


def file_of_the_page() -> str:
    """The class of docs/adding.md, and its recipe."""
    return PAGE.read_text().split("```python\n")[1].split("```")[0]


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    known = [RECIPES, plugins.PLUGINS, *(family.members for family in Named.families)]
    before, looked, modules = [dict(names) for names in known], list(plugins._looked), set(sys.modules)
    try:
        yield
    finally:
        for names, those in zip(known, before, strict=True):
            names.clear()
            names.update(those)  # pyright: ignore
        plugins._looked[:] = looked
        for name in set(sys.modules) - modules:
            if name.startswith((plugins.FILE_MODULE, "vixformer_example")):
                del sys.modules[name]
