"""Which layers of a trained model can be made efficient: what each costs in accuracy and wins in time, and the best few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vixformer.backbones.base import Backbone, mechanism_of
from vixformer.conversion.swap import configurations, differing, swap
from vixformer.measure.latency import Ratio, interleaved, paired_ratio, rounds, summarised
from vixformer.measure.load import watched

SECONDS_A_LAYER = 0.5
"""For timing."""
LEAST = 10
"""Rounds of whole models: fewer than six have no interval."""
NOISE = 0.05
"""Of a layer's time: less is not a gain."""


@dataclass(frozen=True)
class LayerCost:
    """One layer converted, all others as they were."""

    layer: int
    error: float
    """|new - old| / |old| of what the attention gives out, for the tokens it gets in the old model."""
    loss: float
    """Cross-entropy more than before."""
    top1: float
    """Points of accuracy more than before: negative is worse."""
    ms: float
    """Of the old attention, for the images timed."""
    new_ms: float


@dataclass(frozen=True)
class Point:
    """A model on the way from all old to all new layers."""

    layers: tuple[int, ...]
    """Those converted, in the order they were chosen."""
    attention: str
    loss: float
    top1: float
    ms: float
    """Of the whole model, for the images timed."""
    ratio: Ratio
    """Of its time to that of the old model."""


@dataclass(frozen=True)
class Choice:
    costs: tuple[LayerCost, ...]
    curve: tuple[Point, ...]
    """By the number of layers converted, from 0."""
    told: str = ""
    """Why its times are not reliable, where they are not."""


Judge = Callable[[Any], tuple[float, float]]
"""Loss and top-1 of a model."""


def choose(old: Backbone, new: Backbone, judge: Judge, images: Tensor, watch: Callable[[int, int], None] | None = None) -> Choice:
    """Greedily: of the layers left, the one whose conversion costs the least loss for the time it wins, beside those already chosen.

    `new` is `old` converted (and taught, where that is wanted): every layer was fitted on its own, so they can be mixed. L layers are
    judged L (L + 1) / 2 times. `images` are what is timed.
    """
    left = differing(old, configurations(new))
    if not left:
        raise ValueError("no layer differs from what the model has: nothing to choose from")
    total, done = len(left) * (len(left) + 1) // 2 + 1, 0

    def judged(layers: Iterable[int]) -> tuple[float, float]:
        nonlocal done
        found = judge(mixed(old, new, layers))
        done += 1
        if watch is not None:
            watch(done, total)
        return found

    before = judged(())
    alone = _alone(old, new, left, images)
    found = {i: judged((i,)) for i in left}
    costs = [LayerCost(i, alone[i][0], found[i][0] - before[0], found[i][1] - before[1], *alone[i][1:]) for i in left]
    by_layer = {cost.layer: cost for cost in costs}
    chosen: list[int] = []
    scores = [before]
    while left:
        if chosen:
            found = {i: judged((*chosen, i)) for i in left}
        best = _cheapest({i: found[i][0] - scores[-1][0] for i in left}, by_layer)
        scores.append(found[best])
        chosen.append(best)
        left.remove(best)
    models = [mixed(old, new, chosen[:k]) for k in range(len(chosen) + 1)]
    with torch.inference_mode(), watched() as timing:
        calls = {k: lambda m=m: m(images) for k, m in enumerate(models)}
        taken = rounds(calls, SECONDS_A_LAYER * len(models), LEAST, images.device)
    curve = [
        Point(tuple(chosen[:k]), m.attention_expression(), *scores[k], min(taken[k]), paired_ratio(taken[k], taken[0]))
        for k, m in enumerate(models)
    ]
    return Choice(tuple(costs), tuple(curve), timing.told(summarised(times) for times in taken.values()))


def mixed(old: Backbone, new: Backbone, layers: Iterable[int]) -> Any:
    """The old model with some layers of the new one."""
    chosen = set(layers)
    pairs = list(enumerate(zip(configurations(old), configurations(new), strict=True)))
    model, _ = swap(old, [b if i in chosen else a for i, (a, b) in pairs])
    for i in chosen:
        model.attentions()[i].load_state_dict(new.attentions()[i].state_dict())
    return model.eval()


def _cheapest(losses: dict[int, float], costs: dict[int, LayerCost]) -> int:
    """The least loss for the time won. Gains too small to be told from noise count alike, so that none is chosen for its luck."""
    least = NOISE * max(cost.ms for cost in costs.values())

    def price(i: int) -> float:
        gain = max(costs[i].ms - costs[i].new_ms, least)
        return losses[i] / gain if losses[i] > 0 else losses[i] * gain

    return min(losses, key=price)


@torch.inference_mode()
def _alone(old: Backbone, new: Backbone, layers: Sequence[int], images: Tensor) -> dict[int, tuple[float, float, float]]:
    """Of every layer, for the tokens it gets in the old model: the error of the new one, milliseconds of the old and of the new."""
    seen = old.attention_inputs(images)
    calls: dict[tuple[int, bool], Callable[[], Tensor]] = {}
    errors: dict[int, float] = {}
    for i in layers:
        module, tokens, options = seen[i]
        for is_new, m in ((False, module.eval()), (True, new.attentions()[i].eval())):
            calls[i, is_new] = lambda m=m, tokens=tokens, options=options: m(tokens, **options)
        wanted = calls[i, False]()
        errors[i] = float((calls[i, True]() - wanted).norm() / wanted.norm().clamp(min=1e-12))
    timed = interleaved(calls, SECONDS_A_LAYER * len(layers), device=images.device)
    kinds = {i: (*(mechanism_of(m.attentions()[i]).config for m in (old, new)), seen[i][1].shape) for i in layers}

    def least(i: int, is_new: bool) -> float:  # layers that do the same take the same time: what differs is luck
        return min(timed[j, is_new].min for j in layers if kinds[j] == kinds[i])

    return {i: (errors[i], least(i, False), least(i, True)) for i in layers}
