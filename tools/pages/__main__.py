"""`python -m tools.pages`, which `make results` calls. `python -m tools.pages RUNS` also draws where models of these
run folders look."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.page import put
from tools.pages import (
    ablation,
    atlas,
    cifar_kernels,
    claims,
    convert,
    coverage,
    fast_attention,
    figures,
    hybrid,
    lens,
    linear_tests,
    photos,
    xformers,
)
from tools.runs import RESULTS
from vixformer.documents import DOCUMENTS
from vixformer.report.front import page as chart

PAGES: dict[str, Callable[[], str]] = {
    "fast-attention": fast_attention.page,
    "cifar-kernels": cifar_kernels.page,
    "linear-tests": linear_tests.page,
    "hybrid": hybrid.page,
    "xformers": xformers.page,
    "convert": convert.page,
    "lens": lens.page,
    "photos": photos.page,
    "atlas": atlas.page,
    "ablation": ablation.page,
    "claims": claims.page,
    "coverage": coverage.page,
}

INSIDE: dict[str, Callable[[], str]] = {
    "prism minus": lens.overview,
    "times": lens.times,
    "heads": lens.heads,
    "ablation": lens.ablation,
}
"""Tables in docs/lens.md, by their marker."""


def pages() -> dict[str, str]:
    made = "`make results` wrote this page from the records in `docs/results/records`."
    written = {f"{name}.md": f"{page().rstrip()}\n\n{made}\n" for name, page in PAGES.items()}
    return {**written, atlas.CHART: chart()}


def main() -> None:
    figures.written(list(DOCUMENTS.values()), [Path(folder) for folder in sys.argv[1:]])
    for name, text in pages().items():
        (RESULTS / name).write_text(text)
    for marker, made in INSIDE.items():
        put(RESULTS.parent / "lens.md", marker, made())


if __name__ == "__main__":
    main()
