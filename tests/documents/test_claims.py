"""Documents are read from tables."""

from __future__ import annotations

import pytest

from vixformer.documents import DOCUMENTS, claims
from vixformer.documents.claims import Column, read_document

TABLES = {
    "small": [{"recipe": "quick/exact", "top1": "60"}],
    "small.exhibits": [
        {"exhibit": "table 1", "about": "all", "rows": "quick/{exact,relu}", "base": "", "draws": "", "columns": ""},
        {"exhibit": "table 2", "about": "one", "rows": "quick/exact", "base": "", "draws": "", "columns": "time"},
        {"exhibit": "figure 1", "about": "x", "rows": "a b", "base": "a", "draws": "curves times", "columns": ""},
    ],
    "small.claims": [{"text": "t", "where": "w", "one": "{a,b}/{c,d}", "other": "e f", "printed": "0.5", "says": ""}],
    "small.names": [{"kind": "data", "what": "MNIST", "where": "w", "here": "data mnist; option data.flip"}],
}
COLUMNS = (Column("top1", "top-1", "test_top1"), Column("time", "time", None))


def test_several_recipes_stand_in_one_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {name: [{"shows": "", **row} if name.endswith("names") else row for row in t] for name, t in TABLES.items()}
    monkeypatch.setattr(claims, "_table", rows.__getitem__)
    found = read_document("small", "Small", 2020, top1="top1", columns=COLUMNS)
    table, part, figure = found.exhibits
    assert table.rows == ("quick/exact", "quick/relu")
    assert (table.base, table.columns, part.columns, figure.columns) == (None, COLUMNS, COLUMNS[1:], ())
    assert (figure.name, figure.rows, figure.base, figure.draws) == ("figure 1", ("a", "b"), "a", ("curves", "times"))
    (claim,) = found.claims
    assert (claim.one, claim.other) == (("a/c", "a/d", "b/c", "b/d"), ("e", "f"))
    assert (claim.printed, claim.says, claim.epochs) == (0.5, "above", "own")
    assert found.names[0].here == ("data mnist", "option data.flip")
    assert found.printed == {"quick/exact": TABLES["small"][0]}


def test_a_word_that_a_claim_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**TABLES, "small.claims": [{**TABLES["small.claims"][0], "says": "beyond"}], "small.names": []}
    monkeypatch.setattr(claims, "_table", wrong.__getitem__)
    with pytest.raises(ValueError, match="says"):
        read_document("small", "Small", 2020, top1="top1", columns=COLUMNS)


def test_sides_of_equal_length_are_pairs_in_their_order() -> None:
    (claim,) = [c for c in DOCUMENTS["xformers"].claims if c.text.startswith("on CIFAR-10 rotary positions help LeViT")]
    one, other = claim.sides()
    assert [name.removesuffix("-rope") for name in one] == other
