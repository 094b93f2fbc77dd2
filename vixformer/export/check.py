"""Whether what was exported still says what the model says, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vixformer.data.dataset import Images, are_numbers, is_right
from vixformer.data.preprocess import Preprocessing
from vixformer.data.split import fraction
from vixformer.export.formats import WRITERS, Run, Shipped
from vixformer.measure.latency import interleaved
from vixformer.results.predictor import Predictor

COMPARED = 64
"""Images that outputs are compared on."""
TOLERANCE = 1e-4
"""Of the largest logit, or of one where that is larger: what rounding may change."""


@dataclass(frozen=True)
class Exported:
    form: str
    path: Path | None
    """None: the model as it is, in torch."""
    megabytes: float
    difference: float
    """The largest of all logits of all compared images, in batches of every size that was tried."""
    largest: float
    """Of the logits of the model in torch."""
    milliseconds: float
    top1: float | None
    """Per cent of the images it was tested on."""
    tested: int = 0

    @property
    def agrees(self) -> bool:
        return self.difference <= TOLERANCE * max(1.0, self.largest)


def export(
    predictor: Predictor,
    forms: Sequence[str],
    out: Path,
    images: Images | None,
    dynamic_batch: bool,
    batch: int,
    tested: int,
    problem: Callable[[str], None] | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> list[Exported]:
    """First the model in torch, then every format, all timed in turn. Without images noise takes their place, and there
    is no accuracy.

    `problem` is told of a format that this model cannot become; the others are written. Nothing is returned if there is
    no other. `watch` is told what is done next.
    """
    prepare = predictor.preprocessing
    shipped = Shipped(predictor)
    pixels = _pixels(images, prepare, max(COMPARED, batch))
    example = pixels[:batch]
    runs: dict[str, Run] = {"eager": _eager(shipped)}
    for form in forms:
        watch(f"exporting {form}")
        try:
            file, write = WRITERS[form]
            runs[form] = write(shipped, example, out / file, dynamic_batch, prepare)
        except Exception as error:  # exporters raise whatever their parts raise
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
            told = str(error) if isinstance(error, ValueError) else f"this model cannot become {form}: {reason[:300]}"
            if problem is None:
                raise ValueError(told) from error
            problem(told)
    if len(runs) == 1:
        return []
    prepare.save(out)
    watch("timing")
    times = interleaved(
        {form: lambda run=run: run(example) for form, run in runs.items()}, seconds=1.0 * len(runs), least=10
    )
    chosen = None if images is None else images.take(fraction(images.labels, min(1.0, tested / len(images)), 0))
    right = torch.cat([runs["eager"](part) for part in pixels.split(batch) if len(part) == batch])
    sizes = {1, batch, len(right)} if dynamic_batch else {batch}
    found = []
    for form, run in runs.items():
        watch(f"comparing {form} with torch")
        path = None if form == "eager" else out / WRITERS[form][0]
        size = (
            sum(t.numel() * t.element_size() for t in shipped.state_dict().values())
            if path is None
            else path.stat().st_size
        )
        outputs = [torch.cat([run(part) for part in pixels[: len(right)].split(n) if len(part) == n]) for n in sizes]
        difference = max(float((o - right[: len(o)]).abs().max()) for o in outputs)
        top1, count = (
            (None, 0) if chosen is None or are_numbers(chosen.labels) else _top1(run, chosen, batch, dynamic_batch)
        )
        found.append(
            Exported(form, path, size / 2**20, difference, float(right.abs().max()), times[form].min, top1, count)
        )
    return found


def _eager(shipped: Shipped) -> Run:
    def run(pixels: Tensor) -> Tensor:
        with torch.inference_mode():
            return shipped(pixels)

    return run


def _pixels(images: Images | None, prepare: Preprocessing, count: int) -> Tensor:
    if images is None:
        return torch.randint(
            256,
            (count, prepare.channels, *prepare.stored),
            generator=torch.Generator().manual_seed(0),
            dtype=torch.uint8,
        )
    index = torch.linspace(0, len(images) - 1, count).long()
    return images.pixels[images.rows[index]].clone()


def _top1(run: Run, images: Images, batch: int, dynamic_batch: bool) -> tuple[float | None, int]:
    right = 0
    # what was exported for one size of batch takes no other
    whole = len(images) if dynamic_batch else len(images) // batch * batch
    if not whole:
        return None, 0
    for index in torch.arange(whole).split(COMPARED if dynamic_batch else batch):
        guesses = run(images.pixels[images.rows[index]].clone()).argmax(-1)
        right += int(is_right(guesses, images.labels[index]).sum())
    return 100 * right / whole, whole
