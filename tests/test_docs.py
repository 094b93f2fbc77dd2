"""The pages name everything there is, and their Python runs."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark import KeywordMatcher, MarkMatcher
from _pytest.mark.expression import Expression

from tests.conftest import COLLECTED
from tests.support.pages import PAGES, ROOT, commands
from tools.commands import filled
from vixformer.attention.base import Mechanism
from vixformer.attention.kernels.kernel import Kernel
from vixformer.attention.layout import parse
from vixformer.commands import COMMANDS
from vixformer.nn.pooling import Pooling
from vixformer.nn.positions import Positions
from vixformer.nn.stems import Stem
from vixformer.options import parse as parse_options
from vixformer.options import pick_kind
from vixformer.recipes import RECIPES
from vixformer.registry import Named


def test_every_word_is_documented() -> None:
    page = (ROOT / "docs" / "attention.md").read_text()
    for family in (Mechanism, Kernel):
        for name in family.members:
            assert f"| `{name}`" in page, name
    page = (ROOT / "docs" / "mechanisms.md").read_text()
    for name in Mechanism.members:
        assert re.search(f"^## .*`{name}`$", page, re.MULTILINE), name
    page = (ROOT / "docs" / "models.md").read_text()
    for family in (Stem, Positions, Pooling):
        for name in family.members:
            assert f"`{name}`" in page, name


def test_the_page_of_commands_is_what_help_says() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert re.findall("^### `vix (.*)`$", page, re.MULTILINE) == COMMANDS
    assert filled(page) == page, "python -m tools.commands writes it again"


def test_layouts_of_the_page_can_be_read() -> None:
    page = (ROOT / "docs" / "attention.md").read_text()
    table, _, rest = page.partition("Options are")
    found = re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)
    assert rest
    assert "softmax" in found
    assert any("first(" in expression for expression in found)
    for expression in found:
        parse(expression.replace("\\|", "|"))


def test_the_readme_fits_on_a_page() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 100


LINKS = {
    page: re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text())
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
}


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in LINKS])
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINKS[page]:
        assert page.parent.joinpath(target).exists(), target


def test_links_blocks_and_commands_are_found_at_all() -> None:
    """The tests of them are empty where an expression matches nothing."""
    assert LINKS[ROOT / "README.md"]
    assert sum(map(len, LINKS.values())) > 50
    assert len(BLOCKS) > 5
    assert sum(len(commands(page)) for page in PAGES) > 20


BLOCKS = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE))
    if "runs/RUN" not in code  # those are run where there is a run: tests/test_docs_commands.py
]


@pytest.mark.parametrize("code", BLOCKS)
def test_python_in_the_pages_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "import timm" in code:
        # which cannot be imported in this process, where there is no torchvision
        if importlib.util.find_spec("timm") is None:
            pytest.skip("timm is not installed")
        return request.getfixturevalue("with_timm")(code)
    monkeypatch.chdir(tmp_path)
    known = [RECIPES, *(family.members for family in Named.families)]
    before = [dict(names) for names in known]
    try:
        exec(compile(code, "page", "exec", dont_inherit=True), {"__name__": __name__})
    finally:
        for names, those in zip(known, before, strict=True):  # what pages add
            names.clear()
            names.update(those)  # pyright: ignore


@pytest.mark.parametrize("line", sorted({line for page in PAGES if page.stem != "commands" for line in commands(page)}))
def test_commands_in_the_pages_have_words_and_flags_that_exist(line: str) -> None:
    """That they work is for the tests of each command, and the tutorial's; here every flag exists and takes its
    value."""
    word, *args = shlex.split(line)[1:]
    parse_options(*pick_kind(importlib.import_module(f"vixformer.commands.{word}").Options, args, word))


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Which attention should I use" in page
    assert re.search(r'(src|href)="[^"]*\.(js|css|woff2?)"', page)
    # nothing from the network
    assert not re.search(r'(src|href)="https?://(?!squidfunk|www\.mkdocs)[^"]*\.(js|css|woff2?)"', page)


def test_times_of_the_demo_have_intervals_or_are_not_there() -> None:
    """A table from before times were watched stayed in the README for months: 2.27 without an interval, where quiet
    machines gave 0.83."""
    table = (ROOT / "README.md").read_text().split("<!-- demo -->\n")[1].split("<!-- end -->")[0]
    columns, _, *rows = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in table.strip().splitlines()]
    times = [i for i, column in enumerate(columns) if column in ("x train", "x inference")]
    names = {row[0] for row in rows}
    assert len(names) >= 7
    assert names <= {name.removeprefix("quick/") for name in RECIPES if name.startswith("quick/")}
    assert all(row[i] == "1.00" for i in times for row in rows if row[0] == "exact")
    assert all(" to " in row[i] for i in times for row in rows if row[0] != "exact")


def test_every_command_of_the_page_on_faults_selects_a_test(request: pytest.FixtureRequest) -> None:
    """By pytest's own reading of these expressions. In a run of a few files, another pytest collects the rest."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    parser = argparse.ArgumentParser()
    parser.add_argument("where")
    parser.add_argument("-k", default="")
    parser.add_argument("-m", default="not slow")
    lines = [parser.parse_args(shlex.split(line)[1:]) for line in sorted(set(re.findall(r"`(pytest [^`]+)`", page)))]
    assert len(lines) > 30
    collected = request.config.stash[COLLECTED]
    files = {line.where for line in lines}
    if not files <= {item.nodeid.partition("::")[0] for item in collected}:
        name = request.node.name
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-k", name, *sorted(files), __file__]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        return
    for line in lines:
        marked, named = Expression.compile(line.m), Expression.compile(line.k or "test")
        assert any(
            item.nodeid.startswith(line.where)
            and marked.evaluate(MarkMatcher.from_markers(item.iter_markers()))
            and named.evaluate(KeywordMatcher.from_item(item))
            for item in collected
        ), line
