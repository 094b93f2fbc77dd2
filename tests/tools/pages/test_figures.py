"""Figures on the pages of results."""

from __future__ import annotations

import json
import math
import re

import pytest

from tests.support.kept import EXACT, RELU, TIMES, clocked, invented, ran
from tools.pages import figures
from tools.pages.blocks import blocks
from vixformer.documents import DOCUMENTS, Document


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
    assert [(row["value"], row["high"] - row["value"]) for row in rows] == [
        pytest.approx((s * mean, s * sd)) for s in (1, 2)
    ]


def test_an_experiment_that_has_just_begun_does_not_hide_a_whole_one(no_runs: pytest.MonkeyPatch) -> None:
    rows = [EXACT, RELU, "hybrid/mnist/all-relu-64", "hybrid/mnist/all-relu-32"]
    for name in rows:
        ran(no_runs, name, invented(name, 60.0, clip=1.0))
    ran(no_runs, EXACT, invented(EXACT, 60.0, clip=1.0), invented(EXACT, 70.0, epochs=9))
    assert [(block.today, len(block.runs)) for block in blocks(rows)] == [(False, 4), (True, 1)]
    for name in rows[1:3]:
        ran(no_runs, name, invented(name, 60.0, clip=1.0), invented(name, 70.0, epochs=9))
    assert [(block.today, len(block.runs)) for block in blocks(rows)] == [(True, 3), (False, 4)]
