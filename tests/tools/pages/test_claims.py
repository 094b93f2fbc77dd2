"""The page of claims says what the runs give, never mixes budgets, and tells what open claims would take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from scipy.stats import ttest_rel

from tools.pages import answers as answering
from tools.pages import claims
from tools.pages.answers import Answer, answers
from tools.pages.blocks import Budget, comparable
from tools.pages.power import costs_to_decide, seeds_to_decide
from tools.pages.tables import EVERY
from tools.runs import CUT, RESULTS, Kept, changed
from vixformer import load_recipe
from vixformer.documents import DOCUMENTS
from vixformer.documents.claims import Claim, Document
from vixformer.results.evidence import Effect
from vixformer.results.power import seeds_needed

EXACT, RELU, PARENT = (
    "linear-tests/mnist/linformer",
    "linear-tests/mnist/performer-relu-64",
    "linear-tests/mnist/transformer",
)
CHILD, CONTROL = "linear-tests/mnist/linformer-from-checkpoint", "linear-tests/mnist/linformer-equal-epochs"
TABLE = "| claim | where | own table | printed | here | margin | verdict | from | hours to decide |"


def kept(name: str, seed: int, top1: float, epochs: int = 4, **changes: Any) -> Kept:
    images = changes.pop("images", 1_000)
    recipe = load_recipe(name).to_dict()
    for field, value in {"train.epochs": epochs, "train.seed": seed, **changes}.items():
        part, _, key = field.partition(".")
        recipe[part][key] = value
    history = [{"epoch": i + 1.0, "val_top1": top1 - epochs + i} for i in range(epochs)]
    summary = {
        "seed": seed,
        "test_top1": top1,
        "train_images": images,
        "test_images": 500,
        "epochs": epochs,
        "train_seconds": 36.0,
    }
    found = Kept(recipe, summary, history)
    return replace(found, differs=tuple(sorted(changed(recipe, name).keys() - CUT)))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[Kept]]]:
    for name in list(EVERY):
        monkeypatch.delitem(EVERY, name)
    answers.cache_clear()
    yield EVERY
    EVERY.clear()
    answers.cache_clear()


def document(*made: Claim) -> Document:
    return replace(DOCUMENTS["linear-tests"], claims=made)


def the_only_answer(claim: Claim) -> Answer:
    (found,) = answers(document(claim))
    return found


CLAIM = Claim("Linformer beats ReLU", "section 4", (EXACT,), (RELU,), printed=2.0)


def test_every_claim_has_its_row_and_the_counts_are_those_of_the_rows() -> None:
    text = (RESULTS / "claims.md").read_text()
    assert text.count(TABLE) == len(DOCUMENTS)
    every = [answer for one in DOCUMENTS.values() for answer in answers(one)]
    for answer in every:
        claim = answer.found.claim
        assert f"| {claim.text}{f'<br>*{claim.note}*' if claim.note else ''} | {claim.where} |" in text
    counts = Counter(answer.found.judged.verdict for answer in every)
    first = text.splitlines()[2]
    assert first.startswith(
        f"**{counts['shown']} shown, {counts['ruled out']} ruled out, {counts['open']} open** of {len(every)} claims."
    )
    assert claims.page() in text


def test_runs_of_different_budgets_are_never_in_one_effect(runs: dict[str, list[Kept]]) -> None:
    runs[EXACT] = [kept(EXACT, seed, 90.0 + seed / 10) for seed in range(3)]
    others: list[Any] = [
        {"epochs": 5},
        {"images": 900},
        {"data.resize": 16},
        {"train.lr": 0.5},
        {"train.precision": "bfloat16"},
    ]
    for other in others:
        runs[RELU] = [kept(RELU, seed, 80.0 + seed / 10, **other) for seed in range(3)]
        answers.cache_clear()
        assert not the_only_answer(CLAIM).decided, other
    runs[RELU] += [kept(RELU, seed, 88.0 + seed / 9) for seed in range(3)]
    answers.cache_clear()
    found = the_only_answer(CLAIM)
    interval = ttest_rel([90.0, 90.1, 90.2], [88.0, 88 + 1 / 9, 88 + 2 / 9]).confidence_interval(0.95)
    assert found.found.effect is not None
    assert found.found.effect.mean == pytest.approx((interval.low + interval.high) / 2)
    assert found.found.effect.half == pytest.approx((interval.high - interval.low) / 2)
    assert (found.found.judged.verdict, found.told) == ("shown", "4 epochs on 1,000 images, 3 seeds")


def test_a_field_that_all_rows_have_changed_to_the_same_value_keeps_them_comparable(
    runs: dict[str, list[Kept]],
) -> None:
    batch: Any = load_recipe(EXACT).train.batch_size
    runs[EXACT] = [kept(EXACT, seed, 90.0) for seed in range(2)]  # it has this batch by itself
    runs[RELU] = [kept(RELU, seed, 80.0, **{"train.batch_size": batch}) for seed in range(2)]
    runs[RELU] += [kept(RELU, seed, 70.0, **{"train.batch_size": batch + 1}) for seed in range(2)]
    both = [block for block in comparable([EXACT, RELU]) if len(block.runs) == 2]
    assert [[run.summary["test_top1"] for run in block.runs[RELU]] for block in both] == [[80.0, 80.0]]
    assert both[0].budget == Budget(4, 1_000, 500)


def test_another_attention_alone_is_another_row(runs: dict[str, list[Kept]]) -> None:
    runs[EXACT] = [kept(EXACT, seed, 90.0) for seed in range(2)]
    runs[RELU] = [kept(RELU, seed, 80.0, 4, **{"model.attention": "fourier"}) for seed in range(2)]
    assert not the_only_answer(CLAIM).decided


def test_what_decides_is_chosen_by_seeds_version_and_budget_never_by_what_it_says(runs: dict[str, list[Kept]]) -> None:
    runs[EXACT] = [kept(EXACT, seed, 90.0 + seed, epochs) for epochs in (2, 4) for seed in range(3)] + [
        kept(EXACT, 0, 99.0, 50)
    ]
    runs[RELU] = [kept(RELU, seed, 80.0 + seed, 2) for seed in range(3)] + [
        kept(RELU, seed, 95.0 + seed**2, 4) for seed in range(3)
    ]
    runs[RELU] += [kept(RELU, 0, 10.0, 50)]
    assert the_only_answer(CLAIM).told.startswith("4 epochs")
    runs[EXACT] += [kept(EXACT, seed, 90.0, 8, **{"train.lr": 0.5}) for seed in range(3)]
    runs[RELU] += [kept(RELU, seed, 80.0, 8, **{"train.lr": 0.5}) for seed in range(3)]
    answers.cache_clear()
    assert the_only_answer(CLAIM).told.startswith("4 epochs")


def test_the_control_of_a_checkpoint_has_as_many_epochs_in_all(runs: dict[str, list[Kept]]) -> None:
    own = Claim("as from scratch", "section 4", (CHILD,), (EXACT,), "not below")
    fair = replace(own, text="with equal epochs in all", other=(EXACT, CONTROL), epochs="all")
    runs[PARENT] = [kept(PARENT, seed, 92.0, 2) for seed in range(3)]
    runs[CHILD] = [kept(CHILD, seed, 93.0 + seed / 10, 2) for seed in range(3)]
    runs[EXACT] = [kept(EXACT, seed, 90.0 + seed / 11, 2) for seed in range(3)]
    assert [answer.decided for answer in answers(document(own, fair))] == [True, False]
    runs[CONTROL] = [kept(CONTROL, seed, 93.5 + seed / 12, 4) for seed in range(3)]
    answers.cache_clear()
    first, second = answers(document(own, fair))
    assert first.found.effect is not None
    assert second.found.effect is not None
    assert first.found.effect.mean > 2 > 0 > second.found.effect.mean
    assert second.rows == (CHILD, CONTROL)
    assert second.told.startswith("4 epochs on 1,000 images")


def test_first_epochs_and_the_split_are_read_from_the_runs(runs: dict[str, list[Kept]]) -> None:
    early = replace(CLAIM, measure="first epochs")
    runs[EXACT] = [kept(EXACT, 0, 90.0, 10, **{"data.split_seed": split}) for split in range(3)]
    runs[RELU] = [kept(RELU, 0, 80.0, 10, **{"data.split_seed": split}) for split in range(3)]
    found = the_only_answer(early)
    assert found.found.effect is not None
    assert (found.found.effect.count, found.found.effect.method) == (3, "paired")
    assert round(answering.FIRST * 10) == 2
    assert found.found.effect.mean == pytest.approx(10.0)


def test_seeds_that_decide_are_the_fewer_of_those_that_show_and_those_that_rule_out() -> None:
    paired, welch = Effect(0.2, 0.3, 2, 3, "paired"), Effect(0.2, 0.3, 4, 3, "welch")
    level = 0.05 / 20
    show = seeds_needed(0.3 * math.sqrt(3), effect=0.2, level=level)
    rule_out = seeds_needed(0.3 * math.sqrt(3), margin=0.6 - 0.2, level=level)
    assert seeds_to_decide(paired, 0.6, level) == min(show, rule_out) == rule_out > seeds_to_decide(paired, 0.6, 0.05)
    assert seeds_to_decide(paired, 0.1, level) == show
    assert seeds_to_decide(welch, 0.1, level) == seeds_needed(
        0.3 * math.sqrt(1.5), effect=0.2, paired=False, level=level
    )
    assert seeds_to_decide(Effect(0.0, 0.3, 2, 3, "paired"), 0.4, level) == rule_out


def test_hours_are_those_of_the_seeds_that_are_missing(runs: dict[str, list[Kept]]) -> None:
    runs[EXACT] = [kept(EXACT, seed, top1) for seed, top1 in enumerate((90.0, 91.0, 89.5))]
    runs[RELU] = [kept(RELU, seed, top1) for seed, top1 in enumerate((89.0, 91.5, 88.0))]
    unrun = Claim("Transformer beats ReLU", "section 4", (PARENT,), (RELU,))
    found = answers(document(CLAIM, unrun))
    more, fresh = costs_to_decide(found)
    assert found[0].found.effect is not None
    needed = seeds_to_decide(found[0].found.effect, found[0].found.margin, 0.05)
    assert more is not None
    assert fresh is not None
    assert more.hours == pytest.approx((needed - 3) * 2 * 36 / 3600)
    assert fresh.hours == pytest.approx(3 * 2 * 36 / 3600)
    assert fresh.told == "3 seeds"
