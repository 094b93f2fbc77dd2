"""Which layers of any model can be converted, judged with your own data loader."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vixformer.backbones.backbone import Backbone
from vixformer.bridges.find import looking
from vixformer.bridges.theirs import theirs
from vixformer.bridges.untyped import Foreign
from vixformer.conversion.choose import TIMED, Chosen, choose
from vixformer.conversion.distill import distill
from vixformer.conversion.swap import MOST_FITTED, expanded, swap

Batch = Foreign
"""(images, labels), or a dictionary with `pixel_values` and `labels` as transformers' collators give it."""
NONE = "the loader gives no batches"


def choose_layers(
    model: nn.Module,
    attention: str,
    loader: Iterable[Batch],
    *,
    train: Iterable[Batch] | None = None,
    steps: int = 0,
    most: int = 50,
) -> Chosen:
    """Measure what the conversion of each layer of a trained model costs and saves, and find the best order.

    `loader` gives batches of images and labels, and the first `most` of them measure accuracy. `train` gives the
    batches to which new weights are fitted, and on which they are distilled for `steps` steps. Without `train`,
    `loader` is used for both, and the measured accuracy is too high. `chosen.curve[k].attention` is the layout with k
    layers converted, for `vix.convert`.
    """
    if isinstance(loader, Iterator) or isinstance(train, Iterator):
        raise ValueError("an iterator gives its batches once, and they are used several times: give a DataLoader or a"
                         " list")  # fmt: skip
    old = theirs(model, _first(loader))
    lessons = train if train is not None else loader
    new, _ = swap(old, expanded(old, attention), _some(lessons, MOST_FITTED), seed=0)
    if steps:
        distill(new, old, _forever(lessons), steps=steps)

    def judge(candidate: Backbone) -> tuple[float, float]:
        return accuracy(candidate, itertools.islice(loader, most))

    return choose(old, new, judge, _some(loader, TIMED))


@torch.inference_mode()
def accuracy(model: nn.Module, batches: Iterable[Batch]) -> tuple[float, float]:
    """Cross-entropy and top-1 in per cent."""
    loss = hits = count = 0.0
    with looking(model):
        for batch in batches:
            images, labels = _parts(batch)
            if labels is None:
                raise ValueError("these batches have no labels to judge by: give (images, labels)")
            scores = model(images).float()
            loss += float(F.cross_entropy(scores, labels, reduction="sum"))
            hits += float((scores.argmax(1) == labels).sum())
            count += len(labels)
    if not count:
        raise ValueError(NONE)
    return loss / count, 100 * hits / count


def _parts(batch: Batch) -> tuple[Tensor, Tensor | None]:
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, dict):
        return batch["pixel_values"], batch.get("labels")
    return batch[0], batch[1]


def _first(loader: Iterable[Batch]) -> Tensor:
    for batch in loader:
        return _parts(batch)[0]
    raise ValueError(NONE)


def _some(loader: Iterable[Batch], count: int) -> Tensor:
    found: list[Tensor] = []
    for batch in loader:
        found.append(_parts(batch)[0])
        if sum(map(len, found)) >= count:
            break
    if not found:
        raise ValueError(NONE)
    return torch.cat(found)[:count]


def _forever(loader: Iterable[Batch]) -> Iterator[Tensor]:
    while True:
        for batch in loader:
            yield _parts(batch)[0]
