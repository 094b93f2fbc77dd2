"""What the documents print and claim is consistent with itself and with what is here."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from vixformer.attention.layout import parse
from vixformer.backbones.backbone import Backbone
from vixformer.commands import COMMANDS
from vixformer.config import Data, Recipe, Train
from vixformer.data.dataset import DataSet
from vixformer.documents import DOCUMENTS, Document, find
from vixformer.documents.claims import Named
from vixformer.recipes import list_recipes, load_recipe
from vixformer.report.whole import SECTIONS

RESULTS = Path(__file__).parents[2] / "docs/results"
FIGURES = [name for names in SECTIONS.values() for name in names]


@pytest.fixture(params=DOCUMENTS.values(), ids=list(DOCUMENTS))
def document(request: pytest.FixtureRequest) -> Document:
    return request.param


def test_every_printed_row_and_every_exhibit_has_its_recipes(document: Document) -> None:
    known = set(list_recipes())
    assert set(document.printed) <= known
    for exhibit in document.exhibits:
        assert exhibit.recipes(), exhibit.name
        assert set(exhibit.draws) <= set(FIGURES), exhibit.name
        assert exhibit.base is None or exhibit.base in exhibit.recipes(), exhibit.name
        columns = next(iter(document.printed.values()))
        assert {column.printed for column in exhibit.columns} <= set(columns), exhibit.name
    assert len({exhibit.name for exhibit in document.exhibits}) == len(document.exhibits)


def test_every_claim_has_two_sides_with_nothing_in_common(document: Document) -> None:
    for claim in document.claims:
        one, other = claim.sides()
        assert one, claim.text
        assert other, claim.text
        assert not set(one) & set(other), claim.text
        assert document.margin(claim) > 0
    assert len({claim.text for claim in document.claims}) == len(document.claims)


def test_a_claim_that_the_documents_own_table_contradicts_says_so(document: Document) -> None:
    for claim in document.claims:
        if document.agrees(claim) is False:
            assert claim.note, f"{claim.text}: its own table says {document.effect(claim):+.2f}"


def exists(named: str) -> bool:
    kind, _, what = named.partition(" ")
    if kind == "recipe":
        return bool(list_recipes(what))
    if kind == "option":
        part, _, field = what.partition(".")
        owner = {"data": Data, "train": Train}.get(part) or Backbone.member(part).Config
        return field in [f.name for f in dataclasses.fields(owner)]
    if kind == "word":
        return bool(parse(what).expand(4))
    found = {
        "model": lambda: what in Backbone.members,
        "data": lambda: what in DataSet.members,
        "command": lambda: what.split()[:1] == ["vix"] and what.split()[1] in COMMANDS,
        "figure": lambda: what in FIGURES,
        "page": lambda: (RESULTS / what).resolve().exists(),
        "tool": lambda: (RESULTS.parents[1] / "tools" / f"{what}.py").exists(),
    }
    return found[kind]()


def test_everything_a_document_names_is_here_or_says_why_not(document: Document) -> None:
    for named in document.names:
        assert named.here or named.differs, named.what
        for here in named.here:
            assert exists(here), f"{named.what}: {here}"


def test_every_numbered_table_and_figure_is_an_exhibit_or_named(document: Document) -> None:
    shown = [name for named in document.names for name in named.shows]
    known = {exhibit.name for exhibit in document.exhibits} | set(shown)
    last = {"table": document.tables, "figure": document.figures}
    assert {f"{what} {n}" for what, count in last.items() for n in range(1, count + 1)} <= known
    assert len(set(shown)) == len(shown)
    assert not set(shown) & {exhibit.name for exhibit in document.exhibits}


def test_everything_named_is_on_the_page_of_coverage(document: Document) -> None:
    _, _, rest = (RESULTS / "coverage.md").read_text().partition(f'## "{document.title}"\n')
    section = rest.partition("\n## ")[0]
    for exhibit in document.exhibits:
        assert f"| {exhibit.name} | {exhibit.about} |" in section
    for name in document.names:
        assert f"| {name.what} | {name.where} |" in section
        assert name.differs in section
    assert section.count("\n| ") == len(document.exhibits) + len(document.names) + 1 + len(
        {name.kind for name in document.names}
    )


def test_what_is_not_here_is_found_out() -> None:
    assert not exists("recipe hybrid/nothing/*")
    assert not exists("option vit.nothing")
    assert not exists("command vix nothing")
    with pytest.raises(ValueError, match="nothing"):
        exists("word nothing")
    assert Named("x", "section 1", ()).differs == ""


def test_a_document_is_found_by_its_title() -> None:
    assert find(DOCUMENTS, "Hybrid Transformer").name == "hybrid"
    with pytest.raises(ValueError, match='unknown document "nothing"'):
        find(DOCUMENTS, "nothing")
    with pytest.raises(ValueError, match=r'unknown exhibit of hybrid "table 9".*table 1'):
        DOCUMENTS["hybrid"].exhibit("table", 9)


def test_recipes_of_exhibits_load(document: Document) -> None:
    for name in {name for exhibit in document.exhibits for name in exhibit.recipes()[:2]}:
        assert isinstance(load_recipe(name), Recipe)
