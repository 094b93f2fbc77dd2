"""The page of the atlas: its numbers, and how it looks in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vixformer.cli import main
from vixformer.measure.atlas import read_atlas
from vixformer.report.front import cells


def test_every_row_is_in_one_chart_with_its_own_exact_model() -> None:
    shown = [(cell, row) for cell in cells() for row in cell["rows"]]
    known = {row.records: row for row in read_atlas().rows}
    assert len(shown) == len(known) == len(read_atlas().rows)
    for cell, row in shown:
        mine = known[row["records"]]
        assert (mine.exact_top1, mine.exact_records) == (cell["exact"]["top1"], cell["exact"]["records"])
        assert (mine.points, mine.low, mine.high) == (row["points"], row["low"], row["high"])
    assert all(row["mechanisms"] for _, row in shown)


def test_a_row_has_its_own_times_or_else_those_of_a_like_model() -> None:
    timed = {(cost.setting, cost.name, cost.machine): cost for cost in read_atlas().costs}
    near = 0
    for cell in cells():
        for row in cell["rows"]:
            own = {m: c for (setting, name, m), c in timed.items() if (setting, name) == (row["setting"], row["name"])}
            for machine, cost in row["costs"].items():
                assert cost["attention"] == row["attention"]
                if machine in own:
                    assert cost == vars(own[machine])
                else:
                    near += cost["setting"] != row["setting"]
    assert near > 0


def test_the_page_in_a_browser(tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "new" / "atlas.html"
    main(["report", "--atlas", "-o", str(path)])
    said: list[str] = []
    for options in (
        {"viewport": {"width": 390, "height": 844}, "is_mobile": True},
        {"color_scheme": "dark", "viewport": {"width": 1280, "height": 1400}},
    ):
        window = browser.new_context(**options).new_page()
        window.on("console", lambda message: said.append(message.text))
        window.on("pageerror", lambda error: said.append(str(error)))
        window.on(
            "request", lambda request: said.append(request.url) if request.url[:5] not in ("file:", "data:") else 0
        )
        window.goto(path.as_uri())
        window.locator(".spot").first.wait_for()
        assert window.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert window.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"

    spots, rows = window.locator(".spot"), window.locator("#table tbody tr")
    assert window.locator(".spot.exact").get_attribute("aria-label").startswith("exact attention: softmax")
    window.get_by_role("combobox", name="Data").select_option("cifar10, 64 tokens")
    window.get_by_role("combobox", name="Trained").select_option(
        "from scratch, 5 epochs of 45,000 images (lens/cifar10)"
    )
    lens = next(row for row in read_atlas().rows if (row.setting, row.name) == ("lens/cifar10", "lens"))
    window.locator(".spot[aria-label^='attention: lens;']").hover()
    told = window.locator("#vg-tooltip-element.visible").inner_text()
    assert f"+{lens.points:.2f} (+{lens.low:.2f} to +{lens.high:.2f}) points" in told
    assert " ".join(lens.records) in told
    every = spots.count()
    assert rows.count() == every == 12
    for choice in ("Time of a training step", "Memory of a training step", "Inference time"):
        window.get_by_role("radio", name=choice).check()
        assert spots.count() == every
    window.get_by_role("checkbox", name="performer").uncheck()
    assert spots.count() == rows.count() == 6
    window.fill("#filter", "prism")
    assert rows.count() == 2
    assert spots.count() == 3  # and exact attention, to compare with
    window.fill("#filter", "")
    window.get_by_role("combobox", name="Trained").select_option(index=0)
    assert "nearest" in window.locator("#table").inner_text()
    assert window.locator(".spot.near").count() == 1
    assert said == []


@pytest.mark.parametrize(
    ("words", "error"), [([], "which runs?"), (["runs", "--atlas"], "neither runs"), (["--atlas", "--maps", "0"], "-o")]
)
def test_what_is_missing_or_too_much_is_named(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(SystemExit):
        main(["report", *words])
    assert error in capsys.readouterr().err
