"""The pages of results say what the records and timings beside them say, and what the documents print."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tools import timings
from tools.pages import answers, costs, document, figures, lens, tables, tuned
from tools.pages.__main__ import INSIDE, pages
from tools.pages.blocks import blocks
from tools.pages.tables import settings
from tools.runs import RESULTS, Kept, kept_runs
from tools.timings import REPEATS, measure_memory, measure_time, ratio_of
from vixformer import list_recipes, load_recipe
from vixformer.documents import DOCUMENTS, Document
from vixformer.documents.claims import Column, is_cost
from vixformer.documents.reproduce import epoch_images
from vixformer.measure.latency import paired_ratio
from vixformer.recipes.lens import SETTINGS
from vixformer.results.evidence import effect

EXACT, RELU, SOFTMAX = (f"hybrid/mnist/{row}" for row in ("all-standard", "all-relu-16", "all-softmax-16"))
TIMES = {
    EXACT: [10.0, 10.4, 9.8, 10.1, 10.2, 9.9],
    RELU: [11.1, 11.2, 10.9, 11.3, 11.0, 11.1],
    SOFTMAX: [20.3, 20.9, 19.9, 20.2, 20.1, 20.0],
}
"""Milliseconds."""


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def test_pages_are_what_the_runs_give(made: dict[str, str]) -> None:
    """`make results` changes nothing: neither page nor record was edited by hand."""
    for name, text in made.items():
        assert (RESULTS / name).read_text() == text, name
    about = (RESULTS.parent / "lens.md").read_text()
    for marker, inside in INSIDE.items():
        assert f"<!-- {marker} -->\n{inside()}\n<!-- end -->" in about, marker


def test_every_part_has_its_place_in_the_ablation() -> None:
    assert sorted(name for names in lens.GROUPS.values() for name in names) == sorted(SETTINGS["parts"].names)


def test_kept_runs_are_of_recipes_we_have() -> None:
    runs = kept_runs()
    assert set(runs) <= set(list_recipes())
    for name, kept in runs.items():
        assert len({run.summary["seed"] for run in kept}) == len(kept), name
        assert all(len(run.history) == run.summary["epochs"] for run in kept), name


def test_there_is_no_difference_without_a_seed_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lens, "_seeds", {"a/prism": {0: 60.0}, "a/other": {1: 50.0}, "a/same": {0: 50.0}}.get)
    cell = lens._minus("a/", "prism")
    assert (cell("a/other"), cell("a/same")) == ("", "+10.00 (one seed)")


# --- runs


def invented(
    name: str, top1: float, seed: int = 0, epochs: int = 3, images: int = 9_000, test: float | None = None, **changes: Any
) -> Kept:
    """A run of a recipe, with another value of some fields of `train`."""
    recipe = json.loads(json.dumps(load_recipe(name).to_dict(whole=True)))
    recipe["train"] |= {"epochs": epochs, "seed": seed, **changes}
    scores = {"precision": 0.5, "recall": 0.25, "f1-score": 1 / 3, "support": 10.0}
    summary: dict[str, Any] = {"machine": {"device": "cpu", "processor": "x", "threads": 2, "torch": "2"}, "test_top1": top1, "seed": seed}
    summary |= {
        "per_class": {"a": scores, "b": scores, "accuracy": scores},
        "train_images": images,
        "test_images": 10_000,
        "epochs": epochs,
    }
    history: list[dict[str, Any]] = [{"epoch": i + 1, "val_top1": top1, "train_top1": top1 + i} for i in range(epochs)]
    if test is not None:
        summary |= {"test_max_top1": test, "test_last_top1": test - 1}
        history = [record | {"test_loss": 0.5, "test_top1": test} for record in history]
    return Kept(recipe, summary, history, tuple(f"train.{field}" for field in changes))


@pytest.fixture
def no_runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Nothing was run, timed or measured; what a test adds to `tables.EVERY` and `tables.TIMES` is all there is."""
    for kept in (tables.EVERY, tables.RUNS, tables.TRIALS, tables.TIMES, tables.MEMORY):
        for name in list(kept):
            monkeypatch.delitem(kept, name)
    for cached in (answers.answers, figures.drawings):
        cached.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    for cached in (answers.answers, figures.drawings):
        cached.cache_clear()


def ran(patch: pytest.MonkeyPatch, name: str, *runs: Kept) -> None:
    patch.setitem(tables.EVERY, name, list(runs))
    patch.setitem(tables.RUNS, name, list(runs))


def clocked(patch: pytest.MonkeyPatch, name: str, calls: list[float], kept: bool = True, **more: Any) -> None:
    mean, middle = sum(calls) / len(calls), sorted(calls)[len(calls) // 2]
    sd = math.sqrt(sum((call - mean) ** 2 for call in calls) / (len(calls) - 1))
    timing: dict[str, Any] = {"batch": 16, "session": "a", "machine": {"device": "cpu", "processor": "x", "threads": 1, "torch": "2"}}
    for what in ("step", "inference"):
        timing[f"{what}_ms"] = {"median": middle, "mean": mean, "sd": sd, "min": min(calls), "count": len(calls)}
        timing |= {f"{what}_calls": calls} if kept else {}
    patch.setitem(tables.TIMES, name, timing | more)


def test_settings_say_how_much_of_the_test_set() -> None:
    whole = invented(EXACT, 50.0, warmup=7.0)
    part = invented(EXACT, 50.0)
    part.recipe["data"]["test_fraction"], part.summary["test_images"] = 0.2, 2_000
    told = settings({EXACT: [whole]})
    assert "2 classes, batches of 128, float32, 1 seed, x, 2 threads" in told
    assert "batches of 128, tested on 2,000 images (20.0 % of the test set), float32" in settings({EXACT: [part]})
    assert "2,000 images (20.0 % of the test set) or 10,000 images (100.0 % of the test set)" in settings({EXACT: [whole], RELU: [part]})


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
    assert relu == f"| `{RELU}` | 0.000333, 0.001, 0.003 | 0.003 | 76.00 ± 1.00 | +5.00 ± 0.00 | shown | 69.00 ± 1.00 | -2.00 ± 0.00 |"
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
    ran(no_runs, RELU, *(invented(RELU, 80.0 + s, s) for s in range(2)), invented(RELU, 50.0, 0, epochs=9), invented(RELU, 20.0, clip=1.0))
    text = "\n\n".join(document._tables([EXACT, RELU], (), EXACT))
    shown, *folded = text.split("<details")
    assert "9 epochs on 9,000 training images" in shown  # the largest budget that all rows have
    assert f"| `{RELU}` | 50.00 | -10.00 ± " in shown
    assert any("3 epochs on 9,000 images</summary>" in part and "80.50 ± 0.71 | -10.00 ± 0.00" in part for part in folded)
    assert any("of recipes before their last change" in part and f"| `{EXACT}` | 10.00 |" in part for part in folded)
    assert len(folded) == 2


def test_a_row_of_another_budget_says_where_it_is(no_runs: pytest.MonkeyPatch) -> None:
    ran(no_runs, EXACT, invented(EXACT, 90.0))
    ran(no_runs, RELU, invented(RELU, 80.0))
    ran(no_runs, SOFTMAX, invented(SOFTMAX, 70.0, epochs=1))
    rows = document._tables([EXACT, RELU, SOFTMAX, "hybrid/mnist/all-relu-8"], (), EXACT)[2].splitlines()
    assert [row.rpartition("| ")[2] for row in rows[2:]] == ["1 |", "1 |", "below |", "not run |"]


# --- costs


def test_seconds_of_an_epoch_are_of_the_training_part_of_a_fold(no_runs: pytest.MonkeyPatch, made: dict[str, str]) -> None:
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
    assert f"A training step takes {low:.2f} to {high:.2f} times that of `{EXACT}` over all 2 rows timed (2 slower)" in told
    assert f"inference takes {low:.2f} to {high:.2f} times" in told


def test_the_page_of_hybrids_ranges_over_its_whole_tables(made: dict[str, str]) -> None:
    for data, rows in (("mnist", 40), ("cifar10", 48)):
        base, names = f"hybrid/{data}/all-standard", [n for n in DOCUMENTS["hybrid"].printed if n.startswith(f"hybrid/{data}/")]
        ratios = [ratio_of(tables.TIMES, name, base, "step") for name in names if name != base]
        found = [ratio.ratio for ratio in ratios if ratio is not None]
        assert len(found) == rows
        assert f"takes {min(found):.2f} to {max(found):.2f} times that of `{base}` over all {rows} rows timed" in made["hybrid.md"]


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


def test_the_tool_keeps_every_call_and_the_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(timings, "alone", contextlib.nullcontext)
    measure_time({"quick/fourier": load_recipe("quick/fourier")}, tmp_path / "t.json", 2, 6, torch.device("cpu"))
    (kept,) = json.loads((tmp_path / "t.json").read_text()).values()
    assert len(kept["step_calls"]) == len(kept["inference_calls"]) == kept["step_ms"]["count"] == 6
    assert kept["machine"]["device"] == "cpu"
    assert kept["train_images"] == 10_000


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
    assert {name: len(kept["train_mb"]) for name, kept in found.items()} == {"quick/exact": REPEATS, "quick/exact/naive": REPEATS}
    no_runs.setitem(tables.MEMORY, EXACT, {"batch": 4, "train_mb": [100.0] * 3})
    no_runs.setitem(tables.MEMORY, f"{EXACT}/naive", {"batch": 4, "train_mb": [400.0] * 3})
    no_runs.setitem(tables.MEMORY, RELU, {"batch": 4, "train_mb": [120.0] * 3})
    cells = [[cell(name) for _, cell in costs.peaks(EXACT)] for name in (EXACT, RELU)]
    assert cells == [["100, naive 400", "25, naive 100"], ["120", "30"]]
    bars = figures.memory_figure([EXACT, RELU])
    assert bars is not None
    assert len({row["kind"] for row in bars.chart.to_dict()["data"]["values"]}) == 3


# --- columns, classes, learned numbers


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


def test_recipes_of_documents_read_the_test_set_after_every_epoch() -> None:
    names = [name for found in DOCUMENTS.values() for name in found.printed if not name.startswith("hybrid/imagenet")]
    assert all(load_recipe(name).train.track_test for name in names)


def test_class_scores_are_those_of_the_runs(no_runs: pytest.MonkeyPatch) -> None:
    ran(no_runs, EXACT, invented(EXACT, 90.0))
    text = document.class_scores([EXACT])
    assert "| class | precision, % | recall, % | F1, % |" in text
    assert "| a | 50.00 | 25.00 | 33.33 |" in text


def test_what_a_mixture_learned_is_drawn(no_runs: pytest.MonkeyPatch) -> None:
    name = "cifar-kernels/ftheta-mixture"
    assert figures.learned_figure(DOCUMENTS["cifar-kernels"]) is None
    run = invented(name, 50.0)
    ran(
        no_runs,
        name,
        Kept(run.recipe, run.summary, [r | {"blocks.0.attn.core.kernel.mixture": 0.4 + 0.1 * i} for i, r in enumerate(run.history)]),
    )
    drawn = figures.learned_figure(DOCUMENTS["cifar-kernels"])
    assert drawn is not None
    assert "0.6000000000000001" in json.dumps(drawn.chart.to_dict())


# --- claims


@pytest.mark.parametrize("found", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_every_claim_is_on_its_page_with_its_note(found: Document, made: dict[str, str]) -> None:
    lines = made[f"{found.name}.md"].splitlines()
    for claim in found.claims:
        (line,) = [line for line in lines if line.startswith(f"| {claim.text} ({claim.where})")]
        assert claim.note in line
        assert (found.agrees(claim) is False) == ("Its own tables say otherwise" in line), claim.text
        if (printed := found.effect(claim)) is not None:
            assert (f"| x {printed:.2f} |" if is_cost(claim.measure) else f"| {printed:+.2f} |") in line
    verdicts = {answer.found.judged.verdict for answer in answers.answers(found) if answer.decided}
    assert verdicts <= {"shown", "ruled out", "open"}


def test_an_effect_is_of_one_budget(no_runs: pytest.MonkeyPatch) -> None:
    """Three seeds of three epochs on both sides; one side has more of nine, which must not count."""
    (claim,) = [
        c for c in DOCUMENTS["hybrid"].claims if c.text == "on CIFAR-10 with few features and Performers everywhere ReLU beats softmax"
    ]
    one, other = (name for side in claim.sides() for name in side)
    ran(no_runs, one, *(invented(one, 90.0 + s, s) for s in range(3)), *(invented(one, 10.0, s, epochs=9) for s in range(3)))
    ran(no_runs, other, *(invented(other, 88.0 + 0.9 * s, s) for s in range(3)))
    (answer,) = [a for a in answers.answers(DOCUMENTS["hybrid"]) if a.found.claim is claim]
    assert answer.found.effect == effect({s: 90.0 + s for s in range(3)}, {s: 88.0 + 0.9 * s for s in range(3)})
    assert "3 epochs on 9,000 images, 3 seeds" in answer.told


def test_claims_about_time_are_of_all_timed_rows(no_runs: pytest.MonkeyPatch) -> None:
    (claim,) = [c for c in DOCUMENTS["hybrid"].claims if c.text == "on MNIST exact attention trains fastest"]
    for name, calls in TIMES.items():
        clocked(no_runs, name, calls)
    (answer,) = [a for a in answers.answers(DOCUMENTS["hybrid"]) if a.found.claim is claim]
    assert answer.found.judged.verdict == "shown"
    assert "6 calls in turn, batches of 16, 3 of 41 rows" in answer.told
    assert str(answer.found).startswith("x 1.49 (")  # the mean of the logarithms of both rows


# --- figures


@pytest.mark.parametrize("found", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_every_figure_is_on_its_page_or_says_what_it_waits_for(found: Document, made: dict[str, str]) -> None:
    text = made[f"{found.name}.md"]
    for drawing in figures.drawings(found):
        part = text.partition(f"### {drawing.title}\n")[2].partition("\n### ")[0]
        assert "](figures/" in part or "Not drawn yet: " in part, drawing.title
        if "](figures/" not in part:
            assert re.search(r"waits? for (runs|timings|the images) of `|nothing here draws it", part), drawing.title
    numbers = {exhibit.number for exhibit in found.exhibits if exhibit.what == "figure"}
    assert numbers == {e.number for drawing in figures.drawings(found) for e in drawing.exhibits if e.what == "figure"}


def test_files_of_figures_are_drawn_from_what_is_kept(made: dict[str, str]) -> None:
    """By the mark at the end of a chart: `make results` draws those that are not as they should be."""
    there = {path.name for path in figures.FOLDER.iterdir()}
    for found in DOCUMENTS.values():
        for name, figure in figures.files(found).items():
            assert figures.is_drawn(name, figure), name
    shown = {name for text in made.values() for name in re.findall(r"\(figures/([^)]+)\)", text)}
    assert shown == there
    assert all("### Where models look" in made[f"{name}.md"] for name in DOCUMENTS)
    assert sum((figures.FOLDER / name).stat().st_size for name in there) < 3_000_000


def test_a_figure_is_drawn_as_soon_as_there_are_runs(no_runs: pytest.MonkeyPatch) -> None:
    (before,) = [d for d in figures.drawings(DOCUMENTS["fast-attention"]) if d.title.startswith("Figure 2")]
    assert not before.charts
    assert any("waits for runs of `fast-attention/exp2/" in wait for wait in before.waits)
    for model in ("vit", "performer-relu"):
        ran(no_runs, name := f"fast-attention/exp2/{model}", invented(name, 50.0, test=51.0))
    figures.drawings.cache_clear()
    (after,) = [d for d in figures.drawings(DOCUMENTS["fast-attention"]) if d.title.startswith("Figure 2")]
    (chart,) = after.charts.values()
    assert "test loss" in json.dumps(chart.chart.to_dict())
    assert not any("test curves" in wait for wait in after.waits)


def test_time_against_features_has_a_band_and_rows_that_were_not_trained(no_runs: pytest.MonkeyPatch) -> None:
    for features, scale in ((16, 1.0), (64, 2.0)):
        clocked(no_runs, f"hybrid/mnist/all-relu-{features}", [scale * call for call in TIMES[RELU]])
    ((_, chart),) = figures.charts_of("times", [f"hybrid/mnist/all-relu-{m}" for m in (16, 64)])
    rows = [row for row in chart.chart.to_dict()["data"]["values"] if row["of"].startswith("inference")]
    mean = sum(TIMES[RELU]) / 6
    sd = math.sqrt(sum((call - mean) ** 2 for call in TIMES[RELU]) / 5)
    assert [(row["value"], row["high"] - row["value"]) for row in rows] == [pytest.approx((s * mean, s * sd)) for s in (1, 2)]


def test_an_experiment_that_has_just_begun_does_not_hide_a_whole_one(no_runs: pytest.MonkeyPatch) -> None:
    rows = [EXACT, RELU, "hybrid/mnist/all-relu-64", "hybrid/mnist/all-relu-32"]
    for name in rows:
        ran(no_runs, name, invented(name, 60.0, clip=1.0))
    ran(no_runs, EXACT, invented(EXACT, 60.0, clip=1.0), invented(EXACT, 70.0, epochs=9))
    assert [(block.today, len(block.runs)) for block in blocks(rows)] == [(False, 4), (True, 1)]
    for name in rows[1:3]:
        ran(no_runs, name, invented(name, 60.0, clip=1.0), invented(name, 70.0, epochs=9))
    assert [(block.today, len(block.runs)) for block in blocks(rows)] == [(True, 3), (False, 4)]
