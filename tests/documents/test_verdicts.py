"""Runs beside a document's claims: which recipes count, what is compared, and what the command prints."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest

from tests.support.recipes import tiny
from vixformer.cli import main
from vixformer.documents import DOCUMENTS
from vixformer.documents.claims import Claim, Column, Document, Exhibit
from vixformer.documents.verdicts import claim_effect, counted_rows, judge_claims, paired_rows, verdicts
from vixformer.recipes import RECIPES
from vixformer.results.evidence import Effect

EXACT, FIRST, LAST = "hybrid/mnist/all-standard", "hybrid/mnist/first-relu-{}", "hybrid/mnist/last-relu-{}"


def claims_of(text: str) -> list[Claim]:
    return [claim for claim in DOCUMENTS["hybrid"].claims if text in claim.text]


def test_rows_that_differ_in_one_thing_are_compared_in_pairs() -> None:
    (claim,) = claims_of("on MNIST Performers first beat Performers last")
    runs = dict.fromkeys([FIRST.format(16), FIRST.format(64), LAST.format(16)])
    assert paired_rows(claim, runs) == ([FIRST.format(16)], [LAST.format(16)])


def test_against_one_exact_row_whatever_ran_counts() -> None:
    (claim,) = claims_of("on MNIST Performers everywhere match exact attention")
    runs = dict.fromkeys(["hybrid/mnist/all-relu-16", "hybrid/mnist/all-softmax-64", EXACT])
    assert paired_rows(claim, runs) == (["hybrid/mnist/all-relu-16", "hybrid/mnist/all-softmax-64"], [EXACT])


def test_rows_count_where_the_other_side_has_one_in_their_folder() -> None:
    (claim,) = (
        claim for claim in DOCUMENTS["fast-attention"].claims if claim.text == "on CIFAR-10 ViT beats Performers"
    )
    vit, relu, wide = (
        "fast-attention/exp1/vit",
        "fast-attention/exp1/performer-relu",
        "fast-attention/exp4/performer-relu",
    )
    assert paired_rows(claim, dict.fromkeys([vit, relu, wide])) == ([vit], [relu])


def test_rows_that_lack_a_repetition_do_not_shift_its_mean() -> None:
    (claim,) = claims_of("on MNIST Performers everywhere match exact attention")
    low, high, exact = (
        "hybrid/mnist/all-relu-16",
        "hybrid/mnist/all-softmax-64",
        {seed: 95.0 + 0.1 * seed for seed in range(3)},
    )
    runs = {low: {0: 90.0, 1: 90.2}, high: {0: 98.0, 1: 98.1, 2: 98.2}, EXACT: exact}
    found = claim_effect(claim, {"top-1": runs}, {})
    assert found is not None
    assert (found.mean, found.count) == (pytest.approx(-0.975), 2)
    assert counted_rows(claim, runs) == ([low, high], [EXACT])
    assert counted_rows(claim, {**runs, low: {2: 90.0}}) == ([high], [EXACT])


def test_claims_without_an_interval_over_seeds_are_open_and_do_not_count_in_the_family() -> None:
    document = DOCUMENTS["hybrid"]
    claim = document.claims[0]
    clear, single = Effect(1.0, 0.3, math.inf, 9, "paired"), Effect(5.0, 0.1, math.inf, 1, "test images")
    alone, *rest = judge_claims(document, [(claim, clear), *[(claim, single)] * 100, (claim, None)])
    assert alone.judged.verdict == "shown"
    assert {found.judged.verdict for found in rest} == {"open"}
    assert judge_claims(document, [(claim, clear)] * 100)[0].judged.verdict == "open"  # as one of a hundred it is not


def test_a_verdict_needs_both_sides_and_names_its_method() -> None:
    document, claims = DOCUMENTS["hybrid"], claims_of("on MNIST Performers first beat Performers last")
    first = {FIRST.format(16): {0: 98.0, 1: 98.2, 2: 98.1}}
    assert verdicts(document, {"top-1": first}, {}, claims) == []
    ahead = {**first, LAST.format(16): {0: 96.0, 1: 96.1, 2: 96.0}}
    (found,) = verdicts(document, {"top-1": ahead}, {}, claims)
    assert (found.judged.verdict, found.effect and found.effect.method) == ("shown", "paired")
    level = {**first, LAST.format(16): {0: 98.01, 1: 98.19, 2: 98.12}}
    (found,) = verdicts(document, {"top-1": level}, {}, claims)
    assert found.judged.verdict == "ruled out"
    noisy = {**first, LAST.format(16): {0: 99.0, 1: 96.1, 2: 98.0}}
    (found,) = verdicts(document, {"top-1": noisy}, {}, claims)
    assert found.judged.verdict == "open"


def test_costs_are_compared_as_ratios() -> None:
    document, claims = DOCUMENTS["hybrid"], claims_of("at 785 tokens Performers everywhere train faster")
    exact, relu = "hybrid/imagenet/all-standard", "hybrid/imagenet/all-relu-128"
    (found,) = verdicts(
        document, {"step": {exact: {0: 100.0, 1: 102.0, 2: 101.0}, relu: {0: 70.0, 1: 71.5, 2: 70.5}}}, {}, claims
    )
    assert found.judged.verdict == "shown"
    assert str(found).startswith("x 0.70 (")
    assert found.printed == pytest.approx((89.4 + 105.3) / 2 / 136.3)


def test_the_command_puts_printed_figures_beside_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {"tiny/exact": "softmax", "tiny/fourier": "fourier"}
    for name, attention in rows.items():
        monkeypatch.setitem(RECIPES, name, partial(tiny, attention=attention, epochs=1))
    table = Exhibit("table", 1, "Two rows", tuple(rows), (Column("top1", "top-1", "test_top1"),), "tiny/exact")
    claim = Claim("exact attention beats Fourier", "section 1", ("tiny/exact",), ("tiny/fourier",))
    document = Document("tiny", "A tiny document", 2026, "top1", (table,), (claim,), ())
    document.__dict__["printed"] = {"tiny/exact": {"top1": "84.10"}, "tiny/fourier": {"top1": "77.30"}}
    monkeypatch.setitem(DOCUMENTS, "tiny", document)
    main(["reproduce", "tiny", "--table", "1", "--out", str(tmp_path)])
    page = (tmp_path / "tiny-table-1.md").read_text()
    assert "| tiny/fourier | 77.30 |" in page
    assert "open: exact attention beats Fourier (here " in page  # one seed decides nothing
    assert ", printed +6.80; margin 3.40)." in page
    with pytest.raises(SystemExit):
        main(["reproduce", "tiny"])
    assert "which table or figure of tiny? Add one of: --table 1" in capsys.readouterr().err
