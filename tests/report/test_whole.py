"""The page in a real browser."""

from __future__ import annotations

import csv
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs import read_groups
from vixformer.cli import main
from vixformer.report.sentences import answers, sentences
from vixformer.results.groups import Group
from vixformer.results.schema import AVERAGES


def said(groups: list[Group]) -> list[list[str]]:
    return list(sentences(answers(groups)).values())


NAMES = (
    *("<!--<script>", "</script><script>hit = 1</script>", "<img src=x onerror=hit=1>", "=1+1", "a | b\n| c"),
    *("x\u2028y", "&<>\"'", "`", "\\|", "%$"),
)


def test_names_of_classes_and_runs_are_never_code(runs: Path, tmp_path: Path, browser: Any) -> None:
    for kind, name in (
        ("all", "<!--<script>hit=1"),
        ("exact", "=cmd|x <img src=x onerror=hit=1>"),
        ("mixed", "-\n| 1 | 2 |"),
    ):
        folder = tmp_path / "runs" / name
        shutil.copytree(next(runs.glob(f"{kind}-seed0*")), folder)
        summary = json.loads((folder / "summary.json").read_text())
        scores = [value for key, value in summary["per_class"].items() if key not in AVERAGES]
        summary["per_class"] = dict(zip(NAMES, scores, strict=True))
        (folder / "summary.json").write_text(json.dumps(summary))
        recipe = json.loads((folder / "recipe.json").read_text())
        (folder / "recipe.json").write_text(json.dumps({**recipe, "name": name}))
    main(
        [
            "report",
            str(tmp_path / "runs"),
            "-o",
            str(tmp_path / "r.html"),
            "--maps",
            "0",
            "--tables",
            "md,latex,csv",
            "--title",
            "<!--<script>",
        ]
    )
    window = browser.new_page()
    said: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.goto((tmp_path / "r.html").as_uri())
    window.locator("#section-classes summary").click()
    window.locator("#chart-confusion svg").wait_for()
    assert window.locator("#table tbody tr").count() == 3
    assert window.locator("h1").inner_text() == "<!--<script>"
    assert window.locator("#class-model option").count() == 3
    assert "<!--<script>" in window.locator("#chart-classes").inner_text()
    assert window.evaluate("window.hit") is None
    assert said == []
    window.close()

    rows = list(csv.reader((tmp_path / "r.csv").read_text().splitlines(keepends=True)))
    assert sorted(row[0][:2] for row in rows[1:]) == ["'-", "'=", "<!"]
    assert all(len(row) == len(rows[0]) for row in rows)
    lines = (tmp_path / "r.md").read_text().splitlines()
    assert len(lines) == 2 + 3
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {lines[0].count("|")}
    assert "<" not in "".join(lines)
    assert len((tmp_path / "r.tex").read_text().splitlines()) == 4 + 3 + 3  # and a note on one seed


def test_two_hundred_runs_make_a_page_that_is_not_too_large(runs: Path, tmp_path: Path) -> None:
    folders = sorted(path for path in runs.iterdir() if path.is_dir())
    for i in range(25):
        for folder in folders:
            shutil.copytree(folder, tmp_path / "runs" / f"m{i}{folder.name}", copy_function=shutil.copy)
    began = time.process_time()  # which other work does not lengthen
    main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")])
    assert time.process_time() - began < 120
    assert (tmp_path / "r.html").stat().st_size < 6e6


def test_the_page_in_a_browser(page: Path, browser: Any, tmp_path: Path) -> None:
    window = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    said: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    window.goto(page.as_uri())
    window.locator("#pareto .chart svg").wait_for()
    assert window.locator(".chart").count() == 1  # the rest is folded, and drawn when it is opened
    assert window.locator(".headline").inner_text().endswith("exact attention.")
    choices = window.locator("#pareto [type=radio]").all()
    assert len(choices) >= 2
    for choice in choices:
        choice.check()
        window.locator("#pareto .chart svg").wait_for()
    for summary in window.locator("summary").all():
        summary.click()
    charts = window.locator(".chart")
    assert charts.count() >= 6
    for i in range(charts.count()):
        chart = charts.nth(i)
        chart.locator("svg").wait_for()
        marks = chart.locator(
            ".mark-symbol path, .mark-line path, .mark-rect path, .mark-rule line, .mark-area path, .mark-tick path"
        )
        assert marks.count() > 0, chart.get_attribute("id")
    assert said == []

    rows = window.locator("#table tbody tr")
    assert rows.count() == 4
    window.fill("#filter", "mixed")
    assert rows.count() == 1
    window.fill("#filter", "")
    assert window.locator("th[aria-sort=descending]").inner_text().startswith("top-1")
    values = [float(rows.nth(i).locator("td").nth(3).inner_text().split()[0]) for i in range(4)]
    assert values == sorted(values, reverse=True)
    window.get_by_role("button", name="top-1 %").click()
    values = [float(rows.nth(i).locator("td").nth(3).inner_text().split()[0]) for i in range(4)]
    assert values == sorted(values)
    for picture in window.locator("img").all():
        assert picture.evaluate("image => image.naturalWidth") > 0
        assert picture.get_attribute("alt")

    for name, options in (
        ("phone", {"viewport": {"width": 390, "height": 844}, "is_mobile": True}),
        ("dark", {"color_scheme": "dark"}),
    ):
        other = browser.new_context(**options).new_page()
        other.goto(page.as_uri())
        other.locator(".chart svg").first.wait_for()
        other.screenshot(path=tmp_path / f"{name}.png")
        assert other.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = other.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(int(part) for part in ground.strip("rgb()").split(",")) < 150


def test_charts_in_the_page_have_the_numbers_of_the_runs(runs: Path, page: Path) -> None:
    text = page.read_text()
    start = text.index('id="report">') + len('id="report">')
    report = json.loads(text[start : text.index("</script>", start)])
    curves = next(f for f in report["figures"] if f["name"] == "curves")["spec"]["data"]["values"]
    for group in read_groups([runs]):
        for key, what in (("train_loss", "training loss"), ("val_top1", "validation top-1, %")):
            drawn = next(row for row in curves if (row["model"], row["epoch"], row["of"]) == (group.name, 1, what))
            values = [history[0][key] for history in group.histories()]
            assert drawn["value"] == pytest.approx(sum(values) / len(values))
            assert (drawn["low"], drawn["high"]) == (min(values), max(values))
    confusion = next(f for f in report["figures"] if f["name"] == "confusion")["spec"]["data"]["values"]
    for group in read_groups([runs]):
        mine = [row["count"] for row in confusion if row["model"] == group.name]
        assert mine == [count for line in group.first["confusion"] for count in line]
