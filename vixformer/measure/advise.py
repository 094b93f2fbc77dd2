"""Which attention for these images on this machine: layers and models timed here, and a recommendation with its
reason."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from pydantic import PositiveFloat, PositiveInt

from vixformer.attention.base import Core, Mechanism
from vixformer.attention.project.projection import mechanism_of
from vixformer.jsonfile import Values
from vixformer.measure.bench import Measured, Sizes, bench_attention, bench_models, check_models
from vixformer.models import create_model

WORTH = 1.1
"""How many times as fast a model must be to be worth giving up exact attention."""
TIE = 1.02
"""Models whose times differ by less are a tie, however narrow their intervals are."""
NEARLY_FREE = 1.1
"""How much longer than its fastest member the member of a family may take that has more features, and so is closer to
exact."""


@dataclass(frozen=True, kw_only=True)
class Question:
    model: str | None = None
    """A model to measure, timm:NAME or hf:FOLDER, whose sizes are then used. Left out: a ViT of the sizes below."""
    image: PositiveInt = 224
    """Side of the images, in pixels."""
    patch: PositiveInt = 16
    """Side of a patch, in pixels."""
    batch: PositiveInt = 8
    """Number of images in a batch."""
    dim: PositiveInt = 192
    """Width of the tokens."""
    depth: PositiveInt = 12
    """Number of blocks."""
    heads: PositiveInt = 3
    """Number of attention heads."""
    train: bool = False
    """Time a training step instead of inference."""
    budget_ms: PositiveFloat | None = None
    """Milliseconds that a batch may take."""
    memory: PositiveFloat | None = None
    """Peak memory that a batch may take, in MiB."""
    device: str = "cpu"
    """Device, such as cpu or cuda:0."""
    seconds: PositiveFloat = 40.0
    """Seconds for all timing."""

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
    ties: tuple[str, ...] = ()
    """Attentions whose time cannot be told apart from that of the recommended one."""


def with_sizes_of_model(question: Question) -> Question:
    """The sizes of the model that it names, if it names one."""
    if question.model is None:
        return question
    with torch.device("meta"):
        model = create_model(question.model)
    layers = model.attentions()
    shape = mechanism_of(layers[0]).shape
    side = model.img_size[0]
    patch = question.patch if shape.grid is None else max(1, side // shape.grid[0])
    return replace(
        question, image=side, patch=patch, dim=shape.num_heads * shape.head_dim, depth=len(layers),
        heads=shape.num_heads,
    )  # fmt: skip


def check(question: Question) -> None:
    """What cannot be measured is said at once: `watched` may wait for other work to end."""
    if question.dim % question.heads:
        raise ValueError(f"heads must divide dim: {question.heads} does not divide {question.dim}")
    check_models([question.model or "vit"], ["softmax"], _options(question), question.device)


def advise(question: Question, watch: Callable[[str], None] = lambda _: None) -> Advice:
    """Time attention layers, then whole models with exact attention and with the fastest of every family, and decide by
    the models.

    A tie goes to exact attention, or else to what comes first among `_candidates`.
    """
    question = with_sizes_of_model(question)
    check(question)
    sizes = Sizes(
        dim=question.dim, heads=question.heads, tokens=(question.tokens,), batch=question.batch, train=question.train,
        device=question.device, seconds=question.seconds / 2, memory=False,
    )  # fmt: skip
    watch(f"timing attention layers at {question.tokens} tokens")
    layers = sorted(bench_attention(_candidates(question.tokens), sizes), key=lambda m: m.time.min)
    watch("timing whole models")
    asked = ["softmax", *_best_of_each(layers, next(m.time.min for m in layers if m.attention == "softmax"))]
    models = bench_models(
        [question.model or "vit"], asked, _options(question), replace(sizes, memory=question.memory is not None)
    )
    models = [models[0], *sorted(models[1:], key=lambda m: m.time.min)]
    exact, others = models[0], models[1:]
    if question.memory is not None and exact.peak is None:
        raise ValueError(f"--memory cannot be measured on {question.device} here: leave it out")
    limited = question.budget_ms is not None or question.memory is not None
    keeping = [m for m in others if _keeps(question, m)]
    fastest = next(iter(keeping), min(others, key=lambda m: _excess(question, m), default=exact))
    equals = [m for m in keeping if _tied(m, fastest) and _worth(m) == _worth(fastest)]
    order = _candidates(question.tokens).index
    best = min(equals, key=lambda m: order(m.attention), default=fastest)
    ties = tuple(m.attention for m in equals if m is not best)
    if limited and not _keeps(question, exact) and keeping:
        count = _fewest(question, exact, best)
        if count < question.depth:
            watch(f"timing a model with {count} of {question.depth} layers converted")
            layout = f"first({best.attention}, n={count})"
            both = bench_models(
                [question.model or "vit"],
                ["softmax", layout],
                _options(question),
                replace(sizes, memory=question.memory is not None),
            )
            models.append(both[1])
            best, ties = (both[1], ()) if _keeps(question, both[1]) else (best, ties)
    elif (limited and _keeps(question, exact)) or not _worth(best):
        return Advice(
            "softmax", _reason(question, exact, fastest), tuple(layers), tuple(models), _keeps(question, exact)
        )
    return Advice(
        best.attention, _reason(question, exact, best), tuple(layers), tuple(models), _keeps(question, best), ties
    )


def _worth(model: Measured) -> bool:
    """Whether it is clearly faster than exact attention, and by enough."""
    return model.ratio is not None and model.ratio.high < 1 and model.ratio.ratio * WORTH <= 1


def _tied(a: Measured, b: Measured) -> bool:
    """Whether their times cannot be told apart, or are as good as equal."""
    assert a.ratio is not None and b.ratio is not None
    overlap = a.ratio.low <= b.ratio.high and b.ratio.low <= a.ratio.high
    return overlap or max(a.ratio.ratio, b.ratio.ratio) < TIE * min(a.ratio.ratio, b.ratio.ratio)


def _candidates(tokens: int) -> list[str]:
    """Mechanisms with q and k, which can replace exact attention in a trained model too, in sizes that suit this number
    of tokens. In the order in which ties are decided: nearest to the accuracy of exact attention first, by
    docs/choosing.md, and last what it does not know."""
    few = [m for m in (16, 32, 64, 128, 256) if 2 * m <= tokens] or [16]
    words = ["softmax", "lens", "prism", "hedgehog", "focused", "cosine"]
    words += [f"{family}{m})" for family in ("performer(kernel=relu, features=", "performer(features=") for m in few]
    words += [
        f"{family}{m})" for family in ("linformer(rank=", "nystrom(landmarks=") for m in few if m >= min(32, few[-1])
    ]
    named = {word.partition("(")[0] for word in words}
    return words + [
        word
        for word, mechanism in sorted(Mechanism.members.items())
        if issubclass(mechanism, Core) and word not in named
    ]


def mixers() -> list[str]:
    """Mechanisms that are no candidates, because they have no q and k."""
    return sorted(word for word, mechanism in Mechanism.members.items() if not issubclass(mechanism, Core))


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
            found.append(
                max((m for m in members if m.time.min <= NEARLY_FREE * least), key=lambda m: m.multiply_adds).attention
            )
    return found


def _options(question: Question) -> Values:
    if question.model is not None:
        return {}
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
    took = (
        f"{what} of {question.batch} images with {question.tokens} tokens takes {took_ms:.1f} ms with exact attention"
    )
    if question.memory is not None and exact.peak is not None:
        took += f" and {exact.peak / 2**20:.0f} MiB at its peak"
    limited = question.budget_ms is not None or question.memory is not None
    if limited and _keeps(question, exact):
        return f"{took}, which stays within the given limits: there is no reason to give it up."
    if chosen.attention == exact.attention:
        return f"{took}, and no other attention is faster here."
    assert chosen.ratio is not None
    times = f"{1 / chosen.ratio.ratio:.2f} times as fast ({1 / chosen.ratio.high:.2f} to {1 / chosen.ratio.low:.2f})"
    other = f"{other_ms:.1f} ms with {chosen.attention}"
    if question.memory is not None and chosen.peak is not None:
        other += f" and {chosen.peak / 2**20:.0f} MiB"
    if limited and _keeps(question, chosen):
        return f"{took} and {other}, which stays within the given limits: {times}."
    end = "; nothing measured stays within the given limits" if limited else ""
    if chosen.ratio.verdict == "undecided":
        return f"{took} and {other}: these cannot be told apart, so exact attention stays{end}."
    if chosen.ratio.verdict == "slower":
        return f"{took}, and no other attention is faster here{end}."
    if not _worth(chosen):
        return f"{took} and {other}: {times} is not worth another attention{end}."
    return f"{took} and {other}: {times}{end}."
