"""Which attention for these images on this machine: layers and models timed here, and a recommendation with its reason."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import PositiveFloat, PositiveInt

from vixformer.measure.bench import Measured, Sizes, bench_attention, bench_models

WORTH = 1.1
"""How many times as fast a model must be before giving up exact attention is worth a word."""
NEARLY_FREE = 1.1
"""How much longer than its fastest member the member of a family may take that has more features, and so is closer to exact."""


@dataclass(frozen=True, kw_only=True)
class Question:
    image: PositiveInt = 224
    patch: PositiveInt = 16
    batch: PositiveInt = 8
    dim: PositiveInt = 192
    depth: PositiveInt = 12
    heads: PositiveInt = 3
    train: bool = False
    """A training step; otherwise inference."""
    budget_ms: PositiveFloat | None = None
    """What a batch may take."""
    memory: PositiveFloat | None = None
    """MiB that it may take at its peak."""
    device: str = "cpu"
    seconds: PositiveFloat = 40.0
    """For all timing."""

    @property
    def tokens(self) -> int:
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True)
class Advice:
    attention: str
    """A layout for the whole depth."""
    reason: str
    layers: tuple[Measured, ...]
    """One attention layer each, fastest first."""
    models: tuple[Measured, ...]
    """The whole model with exact attention, and with what was considered."""
    fits: bool
    """Whether the recommended model keeps to the budget and the memory that were given."""


def advise(question: Question, watch: Callable[[str], None] = lambda _: None) -> Advice:
    """Time attention layers, then whole models with exact attention and with the fastest of every family, and decide by the models."""
    for small, large in (("patch", "image"), ("heads", "dim")):
        if getattr(question, large) % getattr(question, small):
            raise ValueError(f"{small} must divide {large}: {getattr(question, small)} does not divide {getattr(question, large)}")
    sizes = Sizes(
        dim=question.dim, heads=question.heads, tokens=(question.tokens,), batch=question.batch, train=question.train,
        device=question.device, seconds=question.seconds / 2, memory=False,
    )  # fmt: skip
    watch(f"timing attention layers at {question.tokens} tokens")
    layers = sorted(bench_attention(_candidates(question.tokens), sizes), key=lambda m: m.time.min)
    watch("timing whole models")
    asked = ["softmax", *_best_of_each(layers, next(m.time.min for m in layers if m.attention == "softmax"))]
    models = bench_models(["vit"], asked, _options(question), replace(sizes, memory=question.memory is not None))
    exact, others = models[0], sorted(models[1:], key=lambda m: m.time.min)
    if question.memory is not None and exact.peak is None:
        raise ValueError(f"--memory cannot be measured on {question.device} here: leave it out")
    limited = question.budget_ms is not None or question.memory is not None
    keeping = [m for m in others if _keeps(question, m)]
    best = next(iter(keeping), min(others, key=lambda m: _excess(question, m), default=exact))
    if limited and not _keeps(question, exact) and keeping:
        count = _fewest(question, exact, best)
        if count < question.depth:
            watch(f"timing a model with {count} of {question.depth} layers converted")
            layout = f"first({best.attention}, n={count})"
            (fewer,) = bench_models(["vit"], [layout], _options(question), replace(sizes, memory=question.memory is not None))
            models.append(fewer)
            best = fewer if _keeps(question, fewer) else best
    elif (limited and _keeps(question, exact)) or exact.time.min < WORTH * best.time.min:
        return Advice("softmax", _reason(question, exact, best), tuple(layers), tuple(models), _keeps(question, exact))
    return Advice(best.attention, _reason(question, exact, best), tuple(layers), tuple(models), _keeps(question, best))


def _candidates(tokens: int) -> list[str]:
    """What has q and k, so that it can take the place of exact attention in a trained model too; sizes that make sense for so many
    tokens."""
    few = [m for m in (16, 32, 64, 128, 256) if 2 * m <= tokens] or [16]
    words = ["softmax", "lens", "prism", "hedgehog", "focused", "cosine"]
    words += [f"{family}{m})" for family in ("performer(kernel=relu, features=", "performer(features=") for m in few]
    words += [f"{family}{m})" for family in ("linformer(rank=", "nystrom(landmarks=") for m in few if m >= min(32, few[-1])]
    return words


def _best_of_each(layers: Sequence[Measured], exact: float) -> list[str]:
    """Of every family that is faster than exact attention, the largest size that costs no more than a little."""
    families: dict[str, list[Measured]] = {}
    for m in layers:
        families.setdefault(re.sub(r"\d+", "", m.attention), []).append(m)
    families.pop("softmax")
    found = []
    for members in families.values():
        least = min(m.time.min for m in members)
        if least < exact:
            found.append(max((m for m in members if m.time.min <= NEARLY_FREE * least), key=lambda m: m.multiply_adds).attention)
    return found


def _options(question: Question) -> dict[str, Any]:
    return {
        "img_size": question.image, "patch_size": question.patch, "embed_dim": question.dim, "depth": question.depth,
        "num_heads": question.heads,
    }  # fmt: skip


def _keeps(question: Question, model: Measured) -> bool:
    """Whether a model keeps to what was given, if anything was."""
    return _excess(question, model) <= 1


def _excess(question: Question, model: Measured) -> float:
    """How many times what was given it takes, of time or memory, whichever is more."""
    time = 0.0 if question.budget_ms is None else model.time.median / question.budget_ms
    return max(time, 0.0 if question.memory is None else (model.peak or 0) / question.memory / 2**20)


def _fewest(question: Question, exact: Measured, fastest: Measured) -> int:
    """Layers to convert until the budget is kept, if each wins as much as the others; by memory the same."""
    shares = [0.0]
    if question.budget_ms is not None:
        shares.append((exact.time.median - question.budget_ms) / max(exact.time.median - fastest.time.median, 1e-9))
    if question.memory is not None and exact.peak is not None and fastest.peak is not None:
        shares.append((exact.peak - question.memory * 2**20) / max(exact.peak - fastest.peak, 1))
    return min(question.depth, max(1, math.ceil(question.depth * max(shares))))


def _reason(question: Question, exact: Measured, chosen: Measured) -> str:
    what = "A training step" if question.train else "Inference"
    # a budget is for the usual call, a comparison for the machine at its quietest
    took_ms, other_ms = (m.time.min if question.budget_ms is None else m.time.median for m in (exact, chosen))
    took = f"{what} of {question.batch} images with {question.tokens} tokens takes {took_ms:.1f} ms with exact attention"
    if question.memory is not None and exact.peak is not None:
        took += f" and {exact.peak / 2**20:.0f} MiB at its peak"
    limited = question.budget_ms is not None or question.memory is not None
    if limited and _keeps(question, exact):
        return f"{took}, which keeps to what was given: there is no reason to give it up."
    if chosen.attention == exact.attention:
        return f"{took}, and no other attention is faster here."
    ratio = took_ms / other_ms
    other = f"{other_ms:.1f} ms with {chosen.attention}"
    if question.memory is not None and chosen.peak is not None:
        other += f" and {chosen.peak / 2**20:.0f} MiB"
    if limited and _keeps(question, chosen):
        return f"{took} and {other}, which keeps to what was given: {ratio:.2f} times as fast."
    end = "; nothing measured keeps to what was given" if limited else ""
    if ratio < WORTH:
        return f"{took} and {other}: {ratio:.2f} times as fast is not worth another attention{end}."
    return f"{took} and {other}: {ratio:.2f} times as fast{end}."
