"""Tables of the pages of results say what the records beside them say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.kept import EXACT, RELU, SOFTMAX, invented, ran
from tools.pages import document, tables, tuned
from tools.pages.tables import settings
from tools.runs import Kept
from vixformer.documents import DOCUMENTS


def test_settings_say_how_much_of_the_test_set() -> None:
    whole = invented(EXACT, 50.0, warmup=7.0)
    part = invented(EXACT, 50.0)
    part.recipe["data"]["test_fraction"], part.summary["test_images"] = 0.2, 2_000
    told = settings({EXACT: [whole]})
    assert "2 classes, batches of 128, float32, 1 seed, x, 2 threads" in told
    assert "batches of 128, tested on 2,000 images (20.0 % of the test set), float32" in settings({EXACT: [part]})
    assert "2,000 images (20.0 % of the test set) or 10,000 images (100.0 % of the test set)" in settings(
        {EXACT: [whole], RELU: [part]}
    )


def test_tuned_rows_are_compared_at_the_rates_that_trials_chose(no_runs: pytest.MonkeyPatch) -> None:
    def of(name: str, trials: dict[float, float], tops: dict[float, float]) -> None:
        no_runs.setitem(tables.TRIALS, name, [tried(name, rate, top1) for rate, top1 in trials.items()])
        ran(no_runs, name, *(invented(name, top1 + s, s, lr=rate) for rate, top1 in tops.items() for s in range(3)))

    def tried(name: str, rate: float, top1: float) -> Kept:
        run = invented(name, 0.0, lr=rate)
        return replace(run, summary={**run.summary, "val_top1": top1})

    of(EXACT, {1e-3: 60.0, 3e-3: 50.0, 3.33e-4: 40.0}, {1e-3: 70.0})
    of(RELU, {1e-3: 60.0, 3e-3: 65.0, 3.33e-4: 40.0}, {1e-3: 68.0, 3e-3: 75.0})
    *_, exact, relu = tuned.table([EXACT, RELU], EXACT).splitlines()
    assert exact == f"| `{EXACT}` | 0.000333, 0.001, 0.003 | 0.001 | 71.00 ± 1.00 |  |  | 71.00 ± 1.00 |  |"
    assert (
        relu
        == f"| `{RELU}` | 0.000333, 0.001, 0.003 | 0.003 | 76.00 ± 1.00 | +5.00 ± 0.00 | shown | 69.00 ± 1.00 | -2.00 ±"
        " 0.00 |"
    )
    no_runs.delitem(tables.TRIALS, EXACT)
    assert tuned.table([EXACT, RELU], EXACT) == ""


def test_what_a_recipe_has_changed_since_is_said_and_where(no_runs: pytest.MonkeyPatch) -> None:
    told = settings({EXACT: [invented(EXACT, 50.0, clip=1.0)], RELU: [invented(RELU, 50.0)]})
    assert "Not as the recipes are today: `train.clip` 1.0 instead of none (in `all-standard`)." in told


def test_budgets_and_versions_are_never_in_one_cell(no_runs: pytest.MonkeyPatch) -> None:
    ran(
        no_runs,
        EXACT,
        *(invented(EXACT, 90.0 + s, s) for s in range(2)),
        invented(EXACT, 60.0, 0, epochs=9),
        invented(EXACT, 10.0, clip=1.0),
    )
    ran(
        no_runs,
        RELU,
        *(invented(RELU, 80.0 + s, s) for s in range(2)),
        invented(RELU, 50.0, 0, epochs=9),
        invented(RELU, 20.0, clip=1.0),
    )
    text = "\n\n".join(document._tables([EXACT, RELU], (), EXACT))
    shown, *folded = text.split("<details")
    assert "9 epochs on 9,000 training images" in shown  # the largest budget that all rows have
    assert f"| `{RELU}` | 50.00 | -10.00 ± " in shown
    assert any(
        "3 epochs on 9,000 images</summary>" in part and "80.50 ± 0.71 | -10.00 ± 0.00" in part for part in folded
    )
    assert any("of recipes before their last change" in part and f"| `{EXACT}` | 10.00 |" in part for part in folded)
    assert len(folded) == 2


def test_a_row_of_another_budget_says_where_it_is(no_runs: pytest.MonkeyPatch) -> None:
    ran(no_runs, EXACT, invented(EXACT, 90.0))
    ran(no_runs, RELU, invented(RELU, 80.0))
    ran(no_runs, SOFTMAX, invented(SOFTMAX, 70.0, epochs=1))
    rows = document._tables([EXACT, RELU, SOFTMAX, "hybrid/mnist/all-relu-8"], (), EXACT)[2].splitlines()
    assert [row.rpartition("| ")[2] for row in rows[2:]] == ["1 |", "1 |", "below |", "not run |"]


def test_columns_appear_with_the_first_run_that_has_them(no_runs: pytest.MonkeyPatch) -> None:
    columns = DOCUMENTS["hybrid"].exhibit("table", 1).columns
    ran(no_runs, EXACT, invented(EXACT, 90.0))
    titles = document._tables([EXACT], columns, EXACT)[2].splitlines()[0]
    assert "training top-1, last epoch, here" in titles
    assert "largest test top-1" not in titles
    assert "epochs until it stopped" not in titles
    early = invented(EXACT, 90.0, test=91.5)
    early.summary["stopped_early"] = True
    ran(no_runs, EXACT, early)
    table = document._tables([EXACT], columns, EXACT)[2]
    for title in ("largest test top-1 over epochs, here", "last test top-1, here", "epochs until it stopped, here"):
        assert title in table
    assert "| 90.00 | 91.50 | 90.50 | 92.00 | 3 | 1 |" in table


def test_class_scores_are_those_of_the_runs(no_runs: pytest.MonkeyPatch) -> None:
    ran(no_runs, EXACT, invented(EXACT, 90.0))
    text = document.class_scores([EXACT])
    assert "| class | precision, % | recall, % | F1, % |" in text
    assert "| a | 50.00 | 25.00 | 33.33 |" in text
