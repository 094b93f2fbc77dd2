"""Figures as files: colors that survive gray paper and color blindness, sizes, fonts, and names that do not collide."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.runs import read_groups
from tools.runs import RECORDS
from vixformer.cli import main
from vixformer.report.figures import Figure, all_figures
from vixformer.report.figures.style import Look, complete, fitted, font_of, measured, size_of, svg
from vixformer.report.table import digits
from vixformer.report.whole import asset

SIGHT = {
    "usual": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""What an eye makes of linear red, green and blue (Machado, Oliveira and Fernandes, 2009, complete)."""


def lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    )
    xyz = linear @ to_xyz.T / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], -1)


def palettes() -> dict[str, np.ndarray]:
    """Linear red, green and blue of --c1 to --c8."""
    light, dark = asset("style.css").split("@media screen and (prefers-color-scheme: dark)")
    found = {}
    for name, text in (("light", light), ("dark", dark.partition("* {")[0])):
        codes = re.findall(r"--c\d: #(\w{6})", text)
        assert len(codes) == 8
        srgb = np.array([[int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)] for code in codes])
        found[name] = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return found


@pytest.mark.parametrize(("name", "apart", "in_gray"), [("light", 25.0, 7.0), ("dark", 20.0, 5.0)])
def test_colors_stay_apart_for_every_eye_and_on_gray_paper(name: str, apart: float, in_gray: float) -> None:
    colors = palettes()[name]
    for sight, matrix in SIGHT.items():
        seen = lab(np.clip(colors @ matrix.T, 0, 1))
        nearest = min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2))
        assert nearest > apart, sight
    lightness = lab(colors)[:, 0]
    assert min(abs(a - b) for a, b in combinations(lightness, 2)) > in_gray


@pytest.fixture(scope="module")
def crowded() -> Figure:
    """31 models."""
    groups = [g for g in read_groups([RECORDS / "lens.jsonl"]) if g.name.startswith("lens/parts/")]
    return max(
        (f for f in all_figures(groups) if f.name.startswith("pareto-inference")),
        key=lambda f: len(f.spec["data"]["values"]),
    )


@pytest.mark.parametrize(
    ("size", "font", "named"), [("", "sans-serif", 20), ("page", "serif", 20), ("column", "sans-serif", 8)]
)
def test_no_two_words_of_a_crowded_chart_share_a_place(
    crowded: Figure, browser: Any, size: str, font: str, named: int
) -> None:
    drawn = svg(fitted(crowded, Look(size_of(size), font)))
    window = browser.new_page()
    window.set_content(drawn)
    box = "(t) => { const b = t.getBoundingClientRect(); return [t.textContent, b.x, b.y, b.right, b.bottom]; }"
    boxes = window.evaluate(f"[...document.querySelectorAll('svg text')].map({box})")
    _, *frame = window.evaluate(f"({box})(document.querySelector('svg'))")
    window.close()
    boxes = [box for box in boxes if box[0] and box[3] > box[1]]
    names = {row["name"] for row in crowded.spec["data"]["values"]}
    assert sum(box[0] in names for box in boxes) >= named
    slack = 2  # boxes of letters have room above and below
    for (one, *a), (other, *b) in combinations(boxes, 2):
        assert a[2] <= b[0] + slack or b[2] <= a[0] + slack or a[3] <= b[1] + slack or b[3] <= a[1] + slack, (
            one,
            other,
        )
    outside = [
        w
        for w, x, y, right, low in boxes
        if x < frame[0] - 1 or y < frame[1] - 1 or right > frame[2] + 1 or low > frame[3] + 1
    ]
    assert outside == []


def test_files_have_the_size_that_is_asked_for(crowded: Figure) -> None:
    wide, _ = measured(svg(fitted(crowded, Look(size_of("column")))))
    assert wide == pytest.approx(3.35 * 72, abs=2)
    wide, high = measured(svg(fitted(crowded, Look(size_of("6x4")))))
    assert (wide, high) == pytest.approx((432, 288), abs=3)
    assert "title" in complete(crowded)
    assert "title" not in complete(crowded, Look(title=False))


def test_a_paper_gets_its_files(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "report",
        str(runs),
        "--only",
        "confusion",
        "--figures",
        str(tmp_path / "f"),
        "--title",
        "none",
        "--size",
        "column",
    ]
    main([*asked, "--font", "serif", "--format", "svg,png,pdf"])
    drawn = (tmp_path / "f/confusion.svg").read_text()
    assert re.search(r'width="24[0-3][\d.]*pt"', drawn)
    assert 'font-family="serif"' in drawn
    assert "Confusion matrix" not in drawn
    with Image.open(tmp_path / "f/confusion.png") as image:
        assert image.width == pytest.approx(3.35 * 300, abs=10)
    assert re.search(rb"/MediaBox \[0 0 24[0-3]", (tmp_path / "f/confusion.pdf").read_bytes())
    for flag, value, says in (
        ("--size", "poster", "--size takes column, page, or width x height"),
        ("--size", "0.1x3", "from 1.5 to 30"),
        ("--font", "No Such Font", "--font No Such Font is not installed here"),
        ("--font", "nowhere.ttf", "there is no file nowhere.ttf"),
    ):
        with pytest.raises(SystemExit):
            main([*asked[:6], flag, value])
        assert says in capsys.readouterr().err


def test_generic_fonts_are_always_there() -> None:
    assert [font_of(name) for name in ("serif", "sans-serif", "monospace")] == ["serif", "sans-serif", "monospace"]


def test_digits_follow_the_spread() -> None:
    assert [digits(error) for error in (0.004, 0.12, 0.34, 1.4, 3.5, 14.0, 52.0, 0.0)] == [2, 2, 1, 1, 0, 0, 0, 2]
