"""The pages name everything there is, and their Python runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vixformer.attention.base import Mechanism
from vixformer.attention.kernels.base import Kernel
from vixformer.attention.layout import parse
from vixformer.blocks.pooling import Pooling
from vixformer.blocks.positions import Positions
from vixformer.blocks.stems import Stem

ROOT = Path(__file__).parent.parent


def test_every_word_is_documented() -> None:
    page = (ROOT / "docs" / "attention.md").read_text()
    for family in (Mechanism, Kernel):
        for name in family.members:
            assert f"| `{name}`" in page, name
    page = (ROOT / "docs" / "models.md").read_text()
    for family in (Stem, Positions, Pooling):
        for name in family.members:
            assert f"`{name}`" in page, name


def test_layouts_of_the_page_can_be_read() -> None:
    page = (ROOT / "docs" / "attention.md").read_text()
    table = page.split("Options are")[0]
    for expression in re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE):
        parse(expression.replace("\\|", "|"))


@pytest.mark.parametrize("page", ["README.md", *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md")))])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_the_readme_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    scope: dict = {}
    exec(code, scope)
    assert scope["model"].attention_expression() == "performer(kernel=relu, features=64)*3 + softmax*3"
