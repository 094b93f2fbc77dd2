"""docs/results/hybrid.md."""

from __future__ import annotations

from tools.pages import document
from vixformer.documents import DOCUMENTS


def page() -> str:
    return document.page(
        DOCUMENTS["hybrid"],
        "Five layouts of exact and Performer attention over depth, two kernels, numbers of features. Its accuracies are"
        " of the best test epoch of one seed after 50 epochs; its times are of an Apple M3 (tables 1 and 2) and an"
        " NVIDIA T4 (table 3, noise of 224 x 224 in patches of 8: 785 tokens, batches of 64).",
    )
