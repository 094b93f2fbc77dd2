"""Which layers of a trained model can be made efficient: what each costs in accuracy and wins in time, and the best few
of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from vixformer.attention.layout import print_layers
from vixformer.attention.project.projection import mechanism_of, output_of
from vixformer.backbones.backbone import Backbone
from vixformer.conversion.distill import distill, fitted_before, images_of_step, seconds_of
from vixformer.conversion.swap import configurations, differing, expanded, fitted_on, swap
from vixformer.data.loader import Loader
from vixformer.measure.accuracy import evaluate
from vixformer.measure.latency import Ratio, interleaved, paired_ratio, rounds, summarized
from vixformer.measure.load import watched
from vixformer.results.schema import Amount, Number, Positive

SECONDS_A_LAYER = 0.5
"""For timing."""
LEAST = 10
"""Rounds of whole models: fewer than six have no interval."""
NOISE = 0.05
"""Of a layer's time: less is not a gain."""
SECONDS = 120.0
"""That judging may take, where the validation part is large enough to cut."""
FEWEST = 200
"""Images below which an accuracy says too little to choose by."""
TIMED = 64


@dataclass(frozen=True)
class LayerCost:
    """One layer converted, all others as they were."""

    layer: int
    error: Number
    """|new - old| / |old| of what the attention gives out, for the tokens it gets in the old model."""
    loss: Number
    """Cross-entropy more than before."""
    top1: Number
    """Points of accuracy more than before: negative is worse."""
    ms: Amount
    """Of the old attention, for the images timed."""
    new_ms: Amount


@dataclass(frozen=True)
class Point:
    """A model on the way from all old to all new layers."""

    layers: tuple[int, ...]
    """Those converted, in the order they were chosen."""
    attention: str
    loss: Number
    top1: Number
    ms: Positive
    """Of the whole model, for the images timed."""
    ratio: Ratio | None = None
    """Of its time to that of the old model; None in files of earlier versions."""


@dataclass(frozen=True)
class Chosen:
    costs: tuple[LayerCost, ...]
    curve: tuple[Point, ...]
    """By the number of layers converted, from 0."""
    told: str = ""
    """Why its times are not reliable, where they are not."""


Judge = Callable[[Backbone], tuple[float, float]]
"""Loss and top-1 of a model."""


def choose_layers(
    model: Backbone,
    attention: str,
    train: Loader,
    val: Loader,
    *,
    seed: int,
    steps: int = 0,
    watch: Callable[[str, int, int], None] = lambda *_: None,
    keep: Path | None = None,
) -> Chosen:
    """Convert all layers, distil them if `steps` says so, and find out on the validation part which ones to keep so.
    `keep` is a file from which interrupted distillation resumes, and which has the layers in the end, for the run that
    gets some of them."""
    began = time.perf_counter()
    known = None if keep is None else partial(fitted_before, keep)
    new, _ = swap(model, expanded(model, attention), fitted_on(train), seed=seed, known=known)
    fitting = max(time.perf_counter() - began, seconds_of(keep)[0])
    lessons = partial(images_of_step, train, seed)
    distill(
        new,
        model,
        lessons,
        steps=steps,
        watch=lambda step, _: watch("teaching", step + 1, steps),
        keep=keep,
        fitting=fitting,
    )
    loader = _cut(val, new, len(differing(model, configurations(new))))

    def judge(candidate: Backbone) -> tuple[float, float]:
        scores = evaluate(candidate, loader)
        return scores.loss, scores.top1

    images, _ = next(loader.plain())
    return choose(model, new, judge, images[:TIMED], lambda done, total: watch("judging layers", done, total))


def _cut(loader: Loader, model: Backbone, layers: int) -> Loader:
    """As many images to judge by as there is time for."""
    images, _ = next(loader.plain())
    with torch.inference_mode():
        an_image = (
            interleaved({"": lambda: model(images)}, 0.0, least=3, device=images.device)[""].min / 1e3 / len(images)
        )
    return loader.spread(max(FEWEST, int(SECONDS / (layers * (layers + 1) / 2 + 1) / an_image)))


def choose(
    old: Backbone, new: Backbone, judge: Judge, images: Tensor, watch: Callable[[int, int], None] | None = None
) -> Chosen:
    """Greedily: of the layers left, the one whose conversion costs the least loss for the time it wins, beside those
    already chosen.

    `new` is `old` converted (and distilled, where that is wanted): every layer was fitted on its own, so they can be
    mixed. L layers are judged L (L + 1) / 2 times. `images` are what is timed.
    """
    left = differing(old, configurations(new))
    if not left:
        raise ValueError("no layer differs from what the model has: nothing to choose from")
    total, done = len(left) * (len(left) + 1) // 2 + 1, 0
    mixture = Mixture(old, new)

    def judged(layers: Collection[int]) -> tuple[float, float]:
        nonlocal done
        found = judge(mixture(layers))
        done += 1
        if watch is not None:
            watch(done, total)
        return found

    try:
        before = judged(())
        alone = _alone(old, new, left, images)
        found = {i: judged((i,)) for i in left}
        costs = [
            LayerCost(i, alone[i][0], found[i][0] - before[0], found[i][1] - before[1], *alone[i][1:]) for i in left
        ]
        chosen, scores = _greedy(left, before, found, {cost.layer: cost for cost in costs}, judged)
        steps = [tuple(chosen[:k]) for k in range(len(chosen) + 1)]
        with torch.inference_mode(), watched() as timing:
            calls = {layers: lambda layers=layers: mixture(layers)(images) for layers in steps}
            taken = rounds(calls, SECONDS_A_LAYER * len(steps), LEAST, images.device)
    finally:
        mixture(())
    curve = [
        Point(layers, _expression(old, new, layers), *score, min(taken[layers]), paired_ratio(taken[layers], taken[()]))
        for layers, score in zip(steps, scores, strict=True)
    ]
    return Chosen(tuple(costs), tuple(curve), timing.told(summarized(times) for times in taken.values()))


class Mixture:
    """The old model, with any layers of the new one in their places."""

    def __init__(self, old: Backbone, new: Backbone) -> None:
        self.old, self.new = old.eval(), new.eval()
        names = {module: name.rpartition(".") for name, module in old.named_modules()}
        self.places = [(old.get_submodule(names[module][0]), names[module][2]) for module in old.attentions()]
        self.ours, self.theirs = old.attentions(), new.attentions()

    def __call__(self, layers: Collection[int]) -> Backbone:
        """Takes microseconds, so that mixtures can be timed in turn."""
        for i, (parent, name) in enumerate(self.places):
            setattr(parent, name, self.theirs[i] if i in layers else self.ours[i])
        return self.old


def _expression(old: Backbone, new: Backbone, layers: Sequence[int]) -> str:
    pairs = enumerate(zip(configurations(old), configurations(new), strict=True))
    return print_layers([b if i in layers else a for i, (a, b) in pairs])


def _greedy(
    left: Sequence[int],
    before: tuple[float, float],
    found: dict[int, tuple[float, float]],
    costs: dict[int, LayerCost],
    judged: Callable[[Collection[int]], tuple[float, float]],
) -> tuple[list[int], list[tuple[float, float]]]:
    """The layers in the order of their choice, and the scores with none, the first, the first two of them. `found` is
    each alone."""
    chosen: list[int] = []
    scores = [before]
    while len(chosen) < len(left):
        rest = [i for i in left if i not in chosen]
        if chosen:
            found = {i: judged((*chosen, i)) for i in rest}
        best = _cheapest({i: found[i][0] - scores[-1][0] for i in rest}, costs)
        scores.append(found[best])
        chosen.append(best)
    return chosen, scores


def _cheapest(losses: dict[int, float], costs: dict[int, LayerCost]) -> int:
    """The least loss for the time won. Gains too small to be told from noise count alike, so that none is chosen for
    its luck."""
    least = NOISE * max(cost.ms for cost in costs.values())

    def price(i: int) -> float:
        gain = max(costs[i].ms - costs[i].new_ms, least)
        return losses[i] / gain if losses[i] > 0 else losses[i] * gain

    return min(losses, key=price)


@torch.inference_mode()
def _alone(
    old: Backbone, new: Backbone, layers: Sequence[int], images: Tensor
) -> dict[int, tuple[float, float, float]]:
    """Of every layer, for the tokens it gets in the old model: the error of the new one, milliseconds of the old and of
    the new."""
    seen = old.attention_inputs(images)
    calls: dict[tuple[int, bool], Callable[[], Tensor]] = {}
    errors: dict[int, float] = {}
    for i in layers:
        module, tokens, options = seen[i]
        for is_new, m in ((False, module.eval()), (True, new.attentions()[i].eval())):
            calls[i, is_new] = lambda m=m, tokens=tokens, options=options: output_of(m, tokens, options)
        wanted = calls[i, False]()
        errors[i] = float((calls[i, True]() - wanted).norm() / wanted.norm().clamp(min=1e-12))
    timed = interleaved(calls, SECONDS_A_LAYER * len(layers), device=images.device)
    kinds = {i: (*(mechanism_of(m.attentions()[i]).config for m in (old, new)), seen[i][1].shape) for i in layers}

    def least(i: int, is_new: bool) -> float:  # layers that do the same take the same time: what differs is luck
        return min(timed[j, is_new].min for j in layers if kinds[j] == kinds[i])

    return {i: (errors[i], least(i, False), least(i, True)) for i in layers}
