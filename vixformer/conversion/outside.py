"""Convert a model of timm or transformers with images of a data set; it stays a model of its library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from vixformer.bridges.theirs import Theirs
from vixformer.conversion.choose import Chosen, choose_layers
from vixformer.conversion.distill import distill, images_of_step
from vixformer.conversion.swap import Change, check, differing, expanded, fitted_on, swap
from vixformer.data.loader import Loader

Watch = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Converted:
    model: Theirs
    change: Change
    chosen: Chosen | None
    """What every layer costs, where layers were chosen."""


def convert_outside(
    model: Theirs,
    attention: str,
    train: Loader | None,
    val: Loader | None,
    watch: Watch,
    *,
    steps: int = 0,
    count: int | None = None,
    seed: int = 0,
) -> Converted:
    """All layers, or the `count` that cost the least accuracy; fitted to images of `train`, and distilled on them for
    `steps` steps."""
    layers = expanded(model, attention)
    check(model, layers)
    if train is None and (steps or count is not None):
        raise ValueError("--distill and --choose need images: give --data, a data set or folder:FOLDER")
    chosen = None
    if count is not None and train is not None:
        most = len(differing(model, layers))
        if count > most:
            raise ValueError(f"--choose {count}: only {most} layers differ from what the model has")
        if val is None:
            raise ValueError("layers are chosen on validation images: give --data.val-fraction above 0")
        classes = len(val.images.classes)
        image, _ = next(val.plain())
        scores = model.eval()(image[:1]).shape[-1]
        if scores != classes:
            raise ValueError(
                f"the model gives {scores} scores and the data has {classes} classes: give the data that it was trained"
                " for, or leave out --choose, which measures accuracy"
            )
        chosen = choose_layers(model, attention, train, val, seed=seed, steps=steps, watch=watch)
        layers = expanded(model, chosen.curve[count].attention)
    new, change = swap(model, layers, None if train is None else fitted_on(train), seed=seed)
    if steps and train is not None:
        lessons = partial(images_of_step, train, seed)
        distill(new, model, lessons, steps=steps, watch=lambda step, _: watch("teaching", step + 1, steps))
    assert isinstance(new, Theirs)
    return Converted(new, change, chosen)
