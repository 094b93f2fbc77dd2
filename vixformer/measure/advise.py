"""Which attention for these images on this machine: layers and models timed here, and a recommendation with its
reason."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from vixformer.attention.base import Core, Mechanism
from vixformer.measure.atlas import read_atlas
from vixformer.measure.bench import LEAST, Measured, Sizes, batch_of, bench_attention, bench_models, check_models
from vixformer.measure.limits import keeps, within_limits
from vixformer.measure.memory import Job, peak_memory
from vixformer.measure.nearest import Known, known
from vixformer.measure.question import Question, model_of, with_sizes_of_model
from vixformer.measure.weigh import Option, Weighed, balance, weigh
from vixformer.models import create_model

MOST_MODELS = 5
"""Whole models that are timed beside exact attention; each takes seconds to make."""
LEAST_BATCH_SECONDS = 8.0
"""A training step that takes longer is not run for its memory alone."""
NEARLY_FREE = 1.1
"""How much longer than its fastest member the member of a family may take that has more features, and so is closer to
exact."""


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
    """Attentions that cannot be told apart from the recommended one."""
    weighed: Weighed | None = None
    """Accuracy against time; None where a budget decides."""
    known: tuple[tuple[str, Known], ...] = ()
    """What the atlas knows about the models."""
    peaks: tuple[tuple[str, int], ...] = ()
    """Peak memory in bytes, of exact attention and the recommended one."""
    timed_batch: int = 0
    """Images in the batches that were timed; times are scaled to the batch that was asked for."""


def check(question: Question) -> None:
    """What cannot be measured is said at once: `watched` may wait for other work to end."""
    if question.dim % question.heads:
        raise ValueError(f"heads must divide dim: {question.heads} does not divide {question.dim}")
    name, options = model_of(question)
    check_models([name], ["softmax"], options, question.device)
    _whole_sizes(question, 1.0)


def advise(question: Question, watch: Callable[[str], None] = lambda _: None) -> Advice:
    """Time attention layers, then whole models with exact attention and with the most promising others, and weigh their
    time and what the atlas knows about their accuracy.

    A tie goes to exact attention, or else to the more accurate, or else to what comes first among `_candidates`.
    """
    question = with_sizes_of_model(question)
    check(question)
    sizes = Sizes(
        dim=question.dim, heads=question.heads, tokens=(question.sequence,), batch=_layer_batch(question),
        train=question.train, device=question.device, seconds=question.seconds / 2, memory=False,
    )  # fmt: skip
    watch(f"timing attention layers at {question.sequence} tokens")
    candidates = _candidates(question.sequence, question.trained)
    layers = sorted(bench_attention(candidates, sizes), key=lambda m: m.time.min)
    watch("timing whole models")
    if question.limited:
        return _advice_within_limits(question, layers, watch)
    asked = _promising(question, layers)
    batch = _affordable_batch(question, len(asked))
    whole = replace(_whole_sizes(question, question.seconds / 2), batch=batch)
    name, options = model_of(question)
    models = [_scaled(m, question.batch) for m in bench_models([name], asked, options, whole)]
    found = _known(question, asked)
    able = [Option(m.attention, found.get(m.attention), m.ratio) for m in models[1:] if m.attention in found]
    weighed = weigh([Option("softmax", None, None), *able], question.worth)
    best = next(m for m in models if m.attention == weighed.best.attention)
    watch("measuring memory")
    return Advice(
        best.attention, balance(question, weighed, models[0], best), tuple(layers),
        (models[0], *sorted(models[1:], key=lambda m: m.time.min)), True,
        tuple(one.attention for one in weighed.ties), weighed, tuple(found.items()),
        _peaks(question, dict.fromkeys(("softmax", best.attention)), models[0].time.median), batch,
    )  # fmt: skip


def _layer_batch(question: Question) -> int:
    """Small layers are timed as they are used. Large ones by fewer images: their ratios are the same."""
    return min(question.batch, batch_of(question.sequence))


def _whole_sizes(question: Question, seconds: float) -> Sizes:
    return Sizes(
        batch=question.batch, train=question.train, compile=question.runtime == "compiled",
        runtime="onnxruntime" if question.runtime == "onnxruntime" else "torch", device=question.device,
        seconds=seconds, memory=question.memory is not None,
    )  # fmt: skip


def _affordable_batch(question: Question, count: int) -> int:
    """As many images as leave time for a few calls of every model."""
    name, options = model_of(question)
    model = create_model(name, attention="softmax", **options).to(question.device).eval()
    image = torch.randn(1, model.in_chans, *model.img_size, device=question.device)
    seconds = math.inf
    with torch.inference_mode():
        for _ in range(2):
            began = time.perf_counter()
            model(image).sum().item()
            seconds = min(seconds, time.perf_counter() - began)
    calls = (LEAST + 2) * (count + 1) * (3 if question.train else 1)
    return max(1, min(question.batch, int(question.seconds / 2 / (calls * seconds))))


def _scaled(model: Measured, batch: int) -> Measured:
    """Its times for a batch of another size."""
    share = batch / model.batch
    timed = model.time
    scaled = {key: getattr(timed, key) * share for key in ("min", "median", "mean", "sd")}
    return replace(model, batch=batch, time=replace(timed, **scaled))


def _known(question: Question, attentions: Sequence[str]) -> dict[str, Known]:
    rows = read_atlas().rows
    found = {a: known(a, question.patches, question.start, rows) for a in attentions if a != "softmax"}
    return {attention: one for attention, one in found.items() if one is not None}


def _promising(question: Question, layers: Sequence[Measured]) -> list[str]:
    """Exact attention, and the best by the times of layers: of every family its best size, hybrids of those that the
    atlas has, and the fastest of which nothing is known."""
    exact = next(m.time.min for m in layers if m.attention == "softmax")
    ratio = {m.attention: m.time.min / exact for m in layers if m.attention != "softmax"}
    families = _best_of_each(layers, math.inf)
    forms = ("first({})", "{} + softmax") if question.depth > 1 else ()
    hybrids = {form.format(a): (1 + ratio[a]) / 2 for a in families for form in forms}
    times = {a: ratio[a] for a in families} | hybrids
    found = _known(question, list(times))
    # attention is about half of a layer's time, so that half of what it wins is won
    scores = {a: one.points - question.worth * math.log2((1 + times[a]) / 2) for a, one in found.items()}
    most = MOST_MODELS if question.runtime == "eager" else MOST_MODELS - 2
    chosen = sorted(scores, key=lambda a: -scores[a])[:most]
    unknown = min((a for a in families if a not in found and ratio[a] < 1), key=lambda a: ratio[a], default=None)
    return ["softmax", *chosen, *([] if unknown is None else [unknown])]


def _peaks(question: Question, attentions: Sequence[str] | dict[str, None], ms: float) -> tuple[tuple[str, int], ...]:
    """Nothing where they cannot be measured, or where it would take long."""
    name, options = model_of(question)
    if question.runtime != "eager" or ms / 1e3 * 3 > LEAST_BATCH_SECONDS:
        return ()
    jobs = [Job({"name": name, "attention": a, **options}, question.batch) for a in attentions]
    found = peak_memory(jobs, torch.device(question.device).type)
    return tuple((a, p.train if question.train else p.inference) for a, p in zip(attentions, found or (), strict=False))


def _advice_within_limits(question: Question, layers: Sequence[Measured], watch: Callable[[str], None]) -> Advice:
    name, options = model_of(question)
    sizes = _whole_sizes(question, question.seconds / 2)

    def timed(attention: str) -> Measured:
        watch(f"timing a model with {attention}")
        return bench_models([name], ["softmax", attention], options, sizes)[1]

    asked = ["softmax", *_best_of_each(layers, next(m.time.min for m in layers if m.attention == "softmax"))]
    models = bench_models([name], asked, options, sizes)
    found = within_limits(question, models, _candidates(question.sequence, question.trained), timed)
    return Advice(
        found.best.attention, found.reason, tuple(layers), found.models, keeps(question, found.best), found.ties,
        known=tuple(_known(question, [m.attention for m in found.models]).items()), timed_batch=question.batch,
    )  # fmt: skip


def _candidates(tokens: int, trained: bool = False) -> list[str]:
    """Mechanisms with q and k, which can replace exact attention in a trained model too, in sizes that suit this number
    of tokens. In the order in which ties are decided: nearest to the accuracy of exact attention first, by
    docs/choosing.md, and last what it does not know."""
    few = [m for m in (16, 32, 64, 128, 256) if 2 * m <= tokens] or [16]
    words = ["softmax", *([] if trained else ["softmax(conv=3)"]), "lens", "prism", "hedgehog", "focused", "cosine"]
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
    del families["softmax"]
    found = []
    for members in families.values():
        least = min(m.time.min for m in members)
        if least < exact:
            found.append(
                max((m for m in members if m.time.min <= NEARLY_FREE * least), key=lambda m: m.multiply_adds).attention
            )
    return found
