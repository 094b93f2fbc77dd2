"""`python -m tools.pages`, which `make results` calls."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.page import put
from tools.pages import cifar_kernels, convert, fast_attention, hybrid, lens, linear_tests, xformers
from tools.runs import RESULTS

PAGES: dict[str, Callable[[], str]] = {
    "fast-attention": fast_attention.page,
    "cifar-kernels": cifar_kernels.page,
    "linear-tests": linear_tests.page,
    "hybrid": hybrid.page,
    "xformers": xformers.page,
    "convert": convert.page,
    "lens": lens.page,
}

INSIDE: dict[str, Callable[[], str]] = {"prism minus": lens.overview, "times": lens.times, "heads": lens.heads, "ablation": lens.ablation}
"""Tables in docs/lens.md, by their marker."""


def pages() -> dict[str, str]:
    made = "`make results` wrote this page from the records in `docs/results/records`."
    return {f"{name}.md": f"{page().rstrip()}\n\n{made}\n" for name, page in PAGES.items()}


def main() -> None:
    for name, text in pages().items():
        (RESULTS / name).write_text(text)
    for marker, made in INSIDE.items():
        put(RESULTS.parent / "lens.md", marker, made())


if __name__ == "__main__":
    main()
