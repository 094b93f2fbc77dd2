"""docs/results/linear-tests.md."""

from __future__ import annotations

from tools.pages import document
from vixformer.documents import DOCUMENTS


def page() -> str:
    return document.page(
        DOCUMENTS["linear-tests"],
        "A Transformer and a Linformer in torch, Performers in Keras: two networks, so that rows of one compare with"
        " each other and not across. Its accuracy is on validation. Rows from a checkpoint start from `transformer` and"
        " `keras-transformer`, converted.",
    )
