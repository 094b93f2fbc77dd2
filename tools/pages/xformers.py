"""docs/results/xformers.md."""

from __future__ import annotations

from tools.pages import document
from vixformer.documents import DOCUMENTS


def page() -> str:
    return document.page(
        DOCUMENTS["xformers"],
        "X-former attention in ViT, LeViT, CCT, CvT and PiT, one token a pixel. Its accuracies are of the best test"
        " epoch of the best of three runs on a P100 or T4. Its size is torchsummary's estimate with activations, which"
        " counts what modules return: the scores of exact attention, 128 MB for four layers of four heads and 1,025"
        " tokens, are in its figure for ViT and not in ours, where no module returns them. Its GPU memory is of batches"
        " of 64. More on memory and time is in [speed.md](../speed.md).",
    )
