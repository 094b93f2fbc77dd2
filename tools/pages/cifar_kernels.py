"""docs/results/cifar-kernels.md."""

from __future__ import annotations

from tools.pages import document
from tools.pages.tables import REPORTED, TIMES
from tools.stability import section, stored
from tools.timings import ratio_of
from vixformer.documents import DOCUMENTS

LEARNED = "cifar-kernels/ftheta"


def page() -> str:
    found = DOCUMENTS["cifar-kernels"]
    return document.page(
        found,
        "ViT, and Performers with six kernels behind three convolutions. All its Performers see one token, so their"
        " attention returns v and the kernel changes nothing but the random numbers; what differs is width, depth,"
        " activation and the optimizer. `cifar-kernels-grid/*` asks its question with tokens to attend to. Its times"
        " are of an NVIDIA A100.",
        _overhead(),
        document.class_scores(found.exhibit("table", 4).recipes()),
        section(stored()),
    )


def _overhead() -> str:
    """Of a training step, over the same model with a fixed kernel and as many features."""
    if (ratio := ratio_of(TIMES, LEARNED, f"{LEARNED}-twin", "step")) is None:
        return ""
    printed = REPORTED[LEARNED]["overhead_percent"]
    return (
        f"**What the learned kernel adds to a training step:** printed {printed} %; here a step takes x {ratio} that of"
        f" the same model with 512 ReLU features, in batches of {TIMES[LEARNED]['batch']}."
    )
