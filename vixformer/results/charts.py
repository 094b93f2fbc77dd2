"""Charts: one definition, written as SVG, PNG, PDF, HTML or JSON by the end of the file's name. Needs the `report`
extra."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vixformer.jsonfile import Values
from vixformer.writing import write_bytes

if TYPE_CHECKING:
    import altair

KINDS = (".svg", ".png", ".pdf", ".html", ".json")


def check_chart(path: Path) -> Path:
    """Before anything is measured."""
    if path.suffix not in KINDS:
        raise ValueError(f"a chart ends in {', '.join(KINDS)}, not {path.name}")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")
    _altair()
    return path


def time_against_tokens(rows: Sequence[Values], title: str) -> altair.TopLevelMixin:
    """Rows of `attention`, `tokens` and `microseconds a token`, on log axes: what is constant a token is a level
    line."""
    alt = _altair()
    names = list(dict.fromkeys(row["attention"] for row in rows))
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        x=alt.X("tokens:Q", scale=alt.Scale(type="log", base=2), title="tokens an image"),
        y=alt.Y("microseconds a token:Q", scale=alt.Scale(type="log")),
        color=alt.Color("attention:N", sort=names, title=None, legend=alt.Legend(labelLimit=300)),
    )
    # for a legend in a wider font than the one it was measured in
    room = {"left": 5, "top": 5, "bottom": 5, "right": 45}
    return (base.mark_line() + base.mark_point(filled=True)).properties(
        width=520, height=280, title=title, padding=room
    )


def bars(rows: Sequence[Values], value: str, title: str) -> altair.TopLevelMixin:
    """Rows of `name` and a value, in their order."""
    alt = _altair()
    chart = alt.Chart(alt.Data(values=list(rows))).mark_bar()
    return chart.encode(
        x=alt.X(f"{value}:Q"), y=alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=360))
    ).properties(width=420, title=title)


def write_chart(chart: Any, path: Path, **options: Any) -> None:
    form = path.suffix[1:]
    drawn = io.BytesIO() if form in ("png", "pdf") else io.StringIO()
    chart.save(drawn, form, **options)
    content = drawn.getvalue()
    write_bytes(path, content if isinstance(content, bytes) else content.encode())


def _altair() -> ModuleType:
    try:
        import altair
    except ImportError:
        raise ValueError('charts need altair: pip install "vixformer[report]"') from None
    return altair
