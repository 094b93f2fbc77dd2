"""How every figure looks, on the page and in a file: colors, fonts and sizes."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType

from PIL import ImageFont

from vixformer.jsonfile import Values
from vixformer.report.figures.figure import MOST_COLORS, Figure
from vixformer.writing import write_bytes

COLUMN, PAGE = 3.35, 6.9
"""Inches: a column and the text of a two-column paper."""
POINTS, PNG_POINTS = 72, 300
"""An inch has 72 pixels of a chart; PNG files have 300 dots."""
LETTER = 0.62
"""The width of a letter of a legend, by the size of its font."""


@dataclass(frozen=True)
class Look:
    """Of figures as files."""

    size: tuple[float, float | None] | None = None
    """Inches: width, and height where it is given."""
    font: str = "sans-serif"
    title: bool = True


def size_of(text: str) -> tuple[float, float | None] | None:
    """column, page, WxH in inches, or nothing for the usual size."""
    if text in ("", "column", "page"):
        return {"": None, "column": (COLUMN, None), "page": (PAGE, None)}[text]
    found = re.fullmatch(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)", text)
    if found is None or not all(1.5 <= float(side) <= 30 for side in found.groups()):
        raise ValueError(
            f"--size takes column, page, or width x height in inches from 1.5 to 30, such as 3.35x2.2, not {text}"
        )
    return float(found[1]), float(found[2])


def font_of(text: str) -> str:
    """The family; without this check another font would stand in for one that is not here."""
    family = text
    if text.endswith((".ttf", ".otf")):
        if not Path(text).is_file():
            raise ValueError(f"--font: there is no file {text}")
        engine().register_font_directory(str(Path(text).resolve().parent))
        family = str(ImageFont.truetype(text).getname()[0])
    if family not in ("sans-serif", "serif", "monospace"):
        word = {
            "mark": {"type": "text", "font": family},
            "encoding": {"text": {"value": "a"}},
            "data": {"values": [{}]},
        }
        names = re.findall(rb"/BaseFont ?/(?:[A-Z]{6}\+)?([\w-]+)", engine().vegalite_to_pdf(word))
        if not any(_letters(name.decode()).startswith(_letters(family)) for name in names):
            raise ValueError(
                f"--font {text} is not installed here: give serif, sans-serif, monospace, an installed font, or a .ttf"
                " file"
            )
    return family


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def config(font: str, letters: int = 11) -> Values:
    """Vega-Lite's. Colors are CSS variables: on the page, charts follow a dark scheme and printing."""
    words = {
        "labelFontSize": letters - 1,
        "titleFontSize": letters,
        "labelColor": "var(--quiet)",
        "titleColor": "var(--ink)",
    }
    thin = {"titleFontWeight": "normal"}
    return {
        "background": None,
        "font": font,
        "view": {"stroke": None},
        "axis": {**words, **thin, "gridColor": "var(--line)", "domainColor": "var(--line)", "tickColor": "var(--line)"},
        "legend": {
            **words, **thin, "labelColor": "var(--ink)", "labelLimit": 0, "orient": "bottom",
            "symbolBaseStrokeColor": "var(--quiet)", "offset": 8,
            "layout": {"bottom": {"anchor": "start", "direction": "vertical", "margin": 6}},
        },
        "header": {**words, "labelColor": "var(--ink)"},
        "title": {"color": "var(--ink)", "fontSize": letters + 1, "anchor": "start"},
        "range": {"category": [f"var(--c{i})" for i in range(1, MOST_COLORS + 1)]},
        "mark": {"color": "var(--c1)"},
        "point": {"size": 0.55 * letters**2},
        "line": {"strokeWidth": letters / 6},
        "text": {"color": "var(--ink)", "fontSize": letters - 1},
        "rule": {"color": "var(--quiet)"},
    }  # fmt: skip


@cache
def colors() -> dict[str, str]:
    """The light ones of style.css, which is the one home of colors."""
    sheet = (files("vixformer.report") / "page" / "style.css").read_text()
    return dict(re.findall(r"--(\w+): (#\w+)", sheet.partition("}")[0]))


def resolved(spec: Values) -> Values:
    """With the colors that the variables stand for."""
    return json.loads(re.sub(r"var\(--(\w+)\)", lambda found: colors()[found[1]], json.dumps(spec)))


def complete(
    figure: Figure, look: Look | None = None, width: float | None = None, height: float | None = None
) -> Values:
    """A figure as it stands in a file of its own, with an inner width and height where they are given."""
    look = look or Look()
    spec = deepcopy(figure.spec)
    inner = spec.get("spec", spec)
    letters = 8 if look.size and look.size[0] < 5 else 9 if look.size else 11
    room = look.size[0] * POINTS if look.size else inner["width"] * spec.get("columns", 1)
    settings = spec["config"] = config(look.font, letters)
    settings["background"] = "white"
    settings["legend"]["columns"] = max(1, int(room / (LETTER * (letters - 1) * figure.letters + 26)))
    # sans-serif may be wider where the file is read
    settings["legend"]["columnPadding"] = 4 + 0.1 * letters * figure.letters
    if figure.by_rows and look.size is None:
        spec["padding"] = {"left": 30, "top": 5, "right": 15, "bottom": 5}
    if look.title:
        spec["title"] = figure.title
    if "columns" in spec and look.size:
        spec["columns"] = max(1, min(spec["columns"], int(room / 115)))
    if width is not None:
        inner["width"] = width
    if height is not None:
        inner["height"] = height
    if figure.place is not None:
        spec["data"] = {"values": figure.place(inner["width"], inner["height"], letters - 1)}
    return resolved(spec)


def fitted(figure: Figure, look: Look) -> Values:
    """Of the size that is asked for, with all that stands around the axes: drawn, measured and drawn again."""
    if look.size is None:
        return complete(figure, look)
    goal = look.size[0] * POINTS
    spec = complete(figure, look)
    inner = spec.get("spec", spec)
    columns, rows = _panels(spec)
    width = goal / columns - 50
    height = (
        inner["height"]
        if figure.by_rows
        else width * max(inner["height"] / inner["width"], 0.62 if columns == 1 else 0.75)
    )
    for _ in range(4):
        spec = complete(figure, look, max(20.0, width), max(20.0, height))
        wide, high = measured(svg(spec))
        width += (goal - wide) / columns
        if look.size[1] is not None:
            height += (look.size[1] * POINTS - high) / rows
    return spec


def _panels(spec: Values) -> tuple[int, int]:
    if "facet" not in spec:
        return 1, 1
    field = spec["facet"]["field"]
    count = len({row[field] for row in spec["data"]["values"]})
    columns = min(spec["columns"], count)
    return columns, -(-count // columns)


def measured(drawn: str) -> tuple[float, float]:
    found = re.search(r'<svg[^>]* width="([\d.]+)" height="([\d.]+)"', drawn)
    assert found
    return float(found[1]), float(found[2])


def svg(spec: Values) -> str:
    return engine().vegalite_to_svg(spec)


def write_figure(figure: Figure, path: Path, look: Look) -> None:
    spec = fitted(figure, look)
    form = path.suffix[1:]
    if form == "json":
        content: str | bytes = json.dumps(spec)
    elif form == "svg":
        content = svg(spec)
        if look.size is not None:  # in points, which programs agree on
            content = re.sub(r'(<svg[^>]* width="[\d.]+)(" height="[\d.]+)"', r'\1pt\2pt"', content, count=1)
    elif form == "pdf":
        content = engine().vegalite_to_pdf(spec)
    else:
        content = engine().vegalite_to_png(spec, scale=PNG_POINTS / POINTS if look.size else 2, ppi=POINTS)
    write_bytes(path, content if isinstance(content, bytes) else content.encode())


@cache
def engine() -> ModuleType:
    """What draws charts, and Vega, Vega-Lite and vega-embed for the page."""
    try:
        import vl_convert
    except ImportError:
        raise ValueError('reports need vl-convert: pip install "vixformer[report]"') from None
    return vl_convert
