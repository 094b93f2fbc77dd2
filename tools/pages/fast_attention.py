"""docs/results/fast-attention.md."""

from __future__ import annotations

from tools.pages import document
from vixformer.documents import DOCUMENTS


def page() -> str:
    return document.page(
        DOCUMENTS["fast-attention"],
        "ViT beside Performers with ReLU, softmax (its exp) and a learned matrix (f-theta), experiments I to IX. Its"
        " figures are the largest and the last test accuracy of one run of 70 to 84 epochs, and seconds on an NVIDIA"
        " A10. Its memory is relative to its ViT.",
    )
