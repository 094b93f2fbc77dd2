"""Times and memory on the pages of results."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.support.kept import EXACT, RELU, SOFTMAX, TIMES, clocked, invented, ran
from tools.pages import answers, costs, document, figures, tables
from tools.timings import REPEATS, measure_memory, ratio_of
from vixformer import load_recipe
from vixformer.documents import DOCUMENTS
from vixformer.documents.claims import Column
from vixformer.documents.reproduce import epoch_images
from vixformer.measure.latency import paired_ratio


def test_seconds_of_an_epoch_are_of_the_training_part_of_a_fold(
    no_runs: pytest.MonkeyPatch, made: dict[str, str]
) -> None:
    """A fold of CIFAR-10 in five leaves 40,000 images, and the page says in which batches a step was timed."""
    name = "cifar-kernels/relu"
    assert epoch_images(load_recipe(name)) == 40_000
    assert epoch_images(load_recipe("fast-attention/exp1/vit")) == 50_000
    clocked(no_runs, name, [800.0] * 5)
    seconds = Column("seconds_an_epoch", "seconds an epoch", "seconds_an_epoch")
    inference = Column("inference_seconds", "inference s", "inference_ms")
    assert costs._absolute(tables.TIMES, name, seconds, "step") == "2,000"  # 40,000 / 16 steps of 0.8 s
    assert costs._absolute(tables.TIMES, name, inference, "inference") == "500"  # 10,000 / 16 of them
    assert "in batches of 16 (the recipes': 128)" in costs.timing([name], name)
    assert "an epoch of 40,000 images" in costs.timing([name], name)
    assert "in batches of 32 (the recipes': 64 or 128)" in made["cifar-kernels.md"]


def test_ranges_are_over_all_rows_that_were_timed(no_runs: pytest.MonkeyPatch) -> None:
    for name, calls in TIMES.items():
        clocked(no_runs, name, calls)
    ran(no_runs, RELU, invented(RELU, 50.0))
    low, high = (paired_ratio(TIMES[name], TIMES[EXACT]).ratio for name in (RELU, SOFTMAX))
    told = costs.ranges([EXACT, RELU, SOFTMAX], EXACT)
    assert (
        f"A training step takes {low:.2f} to {high:.2f} times that of `{EXACT}` over all 2 rows timed (2 slower)"
        in told
    )
    assert f"inference takes {low:.2f} to {high:.2f} times" in told


def test_ratios_of_times_have_intervals(no_runs: pytest.MonkeyPatch) -> None:
    for name, calls in TIMES.items():
        clocked(no_runs, name, calls)
    by_pairs = ratio_of(tables.TIMES, SOFTMAX, EXACT, "step")
    assert by_pairs == paired_ratio(TIMES[SOFTMAX], TIMES[EXACT])
    for name, calls in TIMES.items():
        clocked(no_runs, name, calls, kept=False)
    by_spread = ratio_of(tables.TIMES, SOFTMAX, EXACT, "step")
    assert by_spread is not None
    assert by_spread.low < by_spread.ratio < by_spread.high < math.inf
    assert "single calls were not kept" in costs.timing([EXACT, SOFTMAX], EXACT)
    clocked(no_runs, SOFTMAX, TIMES[SOFTMAX], session="b")
    assert ratio_of(tables.TIMES, SOFTMAX, EXACT, "step") is None  # not in turn
    clocked(no_runs, SOFTMAX, TIMES[SOFTMAX], batch=32)
    assert ratio_of(tables.TIMES, SOFTMAX, EXACT, "step") is None


def test_times_on_a_gpu_have_a_column_once_there_are_some(no_runs: pytest.MonkeyPatch) -> None:
    columns = DOCUMENTS["hybrid"].exhibit("table", 1).columns
    clocked(no_runs, EXACT, TIMES[EXACT])
    without = document._tables([EXACT], columns, EXACT)
    assert "seconds an epoch, here" in without[2]
    assert "on a GPU" not in without[2]
    no_runs.setattr(costs, "GPU", {EXACT: tables.TIMES[EXACT]})
    assert "seconds an epoch, here on a GPU" in document._tables([EXACT], columns, EXACT)[2]


def test_memory_is_beside_exact_attention_with_all_its_weights(tmp_path: Path, no_runs: pytest.MonkeyPatch) -> None:
    try:
        measure_memory({"quick/exact": load_recipe("quick/exact")}, tmp_path / "m.json", 2, "cpu")
    except ValueError as error:
        pytest.skip(str(error))
    found = json.loads((tmp_path / "m.json").read_text())
    assert {name: len(kept["train_mb"]) for name, kept in found.items()} == {
        "quick/exact": REPEATS,
        "quick/exact/naive": REPEATS,
    }
    no_runs.setitem(tables.MEMORY, EXACT, {"batch": 4, "train_mb": [100.0] * 3})
    no_runs.setitem(tables.MEMORY, f"{EXACT}/naive", {"batch": 4, "train_mb": [400.0] * 3})
    no_runs.setitem(tables.MEMORY, RELU, {"batch": 4, "train_mb": [120.0] * 3})
    cells = [[cell(name) for _, cell in costs.peaks(EXACT)] for name in (EXACT, RELU)]
    assert cells == [["100, naive 400", "25, naive 100"], ["120", "30"]]
    bars = figures.memory_figure([EXACT, RELU])
    assert bars is not None
    assert len({row["kind"] for row in bars.chart.to_dict()["data"]["values"]}) == 3


def test_claims_about_time_are_of_all_timed_rows(no_runs: pytest.MonkeyPatch) -> None:
    (claim,) = [c for c in DOCUMENTS["hybrid"].claims if c.text == "on MNIST exact attention trains fastest"]
    for name, calls in TIMES.items():
        clocked(no_runs, name, calls)
    (answer,) = [a for a in answers.answers(DOCUMENTS["hybrid"]) if a.found.claim is claim]
    assert answer.found.judged.verdict == "shown"
    assert "6 calls in turn, batches of 16, 3 of 41 rows" in answer.told
    assert str(answer.found).startswith("x 1.49 (")  # the mean of the logarithms of both rows
