"""What the runs say on the questions of the documents, each with its interval and verdict: placement, kernels,
features, and exact attention."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vixformer.results.evidence import MARGIN, Effect, Judged, averaged, effect, judge, sentence
from vixformer.results.groups import Group, Placement, by_protocol, comparable, counted, differing, twin
from vixformer.results.runs import Repetition, flat, name_in, repetition
from vixformer.results.timings import inference_ratio, training_ratio

PLACES = {
    "all": "everywhere",
    "alternate": "in every other layer",
    "first": "in the first half",
    "last": "in the second half",
}
MOST_PAIRS = 16
"""Models told one by one beside exact attention; more are in the table."""
FEATURES = re.compile(r"features=\d+")


@dataclass(frozen=True)
class Question:
    """Whether one thing is better than another."""

    one: str
    other: str
    found: Effect
    model: str | None = None
    """The name of the group whose difference to exact attention this is."""
    costs: tuple[str, ...] = ()
    """What it takes of the exact model's time and memory."""
    of: str = ""
    """What the models have in common, where there are several such sets."""


@dataclass(frozen=True)
class Answer:
    question: Question
    judged: Judged
    margin: float

    def __str__(self) -> str:
        asked = self.question
        told = sentence(asked.one, asked.other, asked.found, self.judged, self.margin)
        verdict, _, rest = told.partition(":")
        costs = f"; it takes {', '.join(asked.costs)}" if asked.costs else ""
        return f"{verdict}{f' ({asked.of})' if asked.of else ''}:{rest}{costs}."


def answers(groups: Sequence[Group], margin: float = MARGIN) -> dict[str, list[Answer]]:
    """By data set and protocol: what was trained for longer, or on more, is not compared. The questions of one protocol
    are a family."""
    found = {}
    for protocol, some in by_protocol(sorted(groups, key=lambda g: (g.data, g.name))).items():
        if asked := _of_one(some, groups):
            judged = judge([(question.found, "different", margin) for question in asked])
            found[protocol] = [
                Answer(question, verdict, margin) for question, verdict in zip(asked, judged, strict=True)
            ]
    return found


def sentences(found: dict[str, list[Answer]]) -> dict[str, list[str]]:
    """By protocol. Of more than a few models beside exact attention, the rest is in the table."""
    told = {}
    for protocol, some in found.items():
        beside = [answer for answer in some if answer.question.model is not None]
        lines = [str(answer) for answer in some if answer not in beside[MOST_PAIRS:]]
        rest = len(beside) - MOST_PAIRS
        told[protocol] = [*lines, *([f"The table compares {rest} more with exact attention."] if rest > 0 else [])]
    return told


def _of_one(groups: list[Group], everyone: Sequence[Group]) -> list[Question]:
    found = {}
    for label, some in comparable(groups).items():
        placed = [(group, layout) for group in some if (layout := group.layout()) is not None]
        found[label] = [*_placement(placed), *_kernels(placed), *_features(placed)]
    found = {label: asked for label, asked in found.items() if asked}
    several = len(found) > 1
    asked = [replace(question, of=label) if several else question for label, some in found.items() for question in some]
    return [*asked, *_against_exact(groups), *_converted(groups, everyone)]


Placed = Sequence[tuple[Group, Placement]]


def _pick(placed: Placed, keep: Callable[[Placement], bool]) -> list[Group]:
    return [group for group, layout in placed if keep(layout)]


def _tops(groups: Iterable[Group]) -> dict[Repetition, float]:
    """The mean of each repetition that all of them have: configurations do not pass for seeds."""
    each = [group.repetitions() for group in groups]
    common = set.intersection(*map(set, each)) or set().union(*each)
    return averaged((which, value) for values in each for which, value in values.items() if which in common)


def _images(groups: Sequence[Group]) -> int:
    return min(group.first["test_images"] for group in groups)


def compared(a: Sequence[Group], b: Sequence[Group], one: str, other: str) -> list[Question]:
    """One question, or none where a side is missing."""
    if not a or not b or (found := effect(_tops(a), _tops(b), _images([*a, *b]))) is None:
        return []
    return [Question(one, other, found)]


def _placement(placed: Placed) -> list[Question]:
    at = {place: _pick(placed, lambda layout, p=place: layout.place == p) for place in ("standard", *PLACES)}
    if sum(bool(some) for some in at.values()) < 3:
        return []
    asked = [
        q
        for place, words in PLACES.items()
        for q in compared(at[place], at["standard"], f"efficient attention {words}", "exact")
    ]
    return [*asked, *compared(at["first"], at["last"], "efficient attention first", "efficient attention last")]


def _kernels(placed: Placed) -> list[Question]:
    asked = []
    for place, words in PLACES.items():
        relu, softmax = (
            _pick(placed, lambda layout, p=place, k=kernel: (layout.place, layout.kernel) == (p, k))
            for kernel in ("relu", "softmax")
        )
        asked += compared(relu, softmax, f"the ReLU kernel of Performers {words}", "softmax features")
    return asked


def _features(placed: Placed) -> list[Question]:
    counts = sorted({layout.features for _, layout in placed if layout.features is not None})
    if len(counts) < 2:
        return []
    series = {
        n: {_series(g): g for g in _pick(placed, lambda layout, n=n: layout.features == n)}
        for n in (counts[0], counts[-1])
    }
    few, many = (
        [some[key] for key in series[counts[0]].keys() & series[counts[-1]].keys()] for some in series.values()
    )
    return compared(many, few, f"the choice of {counts[-1]} features", f"that of {counts[0]}")


def _against_exact(groups: list[Group]) -> list[Question]:
    pairs = [(group, exact) for group in groups if not group.exact and (exact := twin(group, groups)) is not None]
    return [
        replace(question, model=a.name, costs=_costs(a, b))
        for a, b in pairs
        for question in compared([a], [b], a.name, _beside(a, b))
    ]


def _costs(group: Group, exact: Group) -> tuple[str, ...]:
    """Of time only what is clear."""
    times = {"training": training_ratio(group, exact), "inference": inference_ratio(group, exact)}
    told = [
        f"{ratio} of its {what} time"
        for what, ratio in times.items()
        if ratio is not None and ratio.verdict != "undecided"
    ]
    mine, theirs = (g.spread("peak_train_mb") for g in (group, exact))
    told += [f"{mine.mean / theirs.mean:.2f} of its memory"] if mine and theirs and theirs.mean else []
    return tuple(told)


def _converted(groups: list[Group], everyone: Sequence[Group]) -> list[Question]:
    """Beside the model each was made from, and beside one of the same attention that began afresh."""
    asked = []
    for group in groups:
        parent = name_in(Path(group.first.get("conversion", {}).get("parent") or "").name)
        name = next((g.name for g in everyone if flat(g.name).partition(" (")[0] == parent), parent or "the model")
        asked += _beside_parent(group, f"{name} (which it was made from)")
        fresh = [g for g in everyone if parent and _is_the_same_from_scratch(group, g)]
        asked += [
            question
            for g in fresh
            for question in compared(
                [group],
                [g],
                group.name,
                f"{g.name} (the same from scratch, {counted(g.runs[0].recipe.train.epochs, 'epoch')})",
            )
        ]
    return asked


def _beside_parent(group: Group, parent: str) -> list[Question]:
    """Each run beside the very model that it was made from, whose accuracy on the same test images it recorded before
    it changed it."""
    mine, parents = [], []
    for run in group.runs:
        summary = run.summary or {}
        before = next(
            (s.get("test_top1") for s in summary.get("conversion", {}).get("stages", ()) if s.get("stage") == "parent"),
            None,
        )
        if before is not None:
            mine.append((repetition(run.recipe), summary["test_top1"]))
            parents.append((repetition(run.recipe), before))
    found = effect(averaged(mine), averaged(parents), _images([group]))
    return [] if found is None else [Question(group.name, parent, found)]


def _is_the_same_from_scratch(group: Group, other: Group) -> bool:
    ours, theirs = (g.runs[0].recipe for g in (group, other))
    return (
        theirs.train.weights is None and (ours.model, ours.data) == (theirs.model, theirs.data) and group is not other
    )


def _series(group: Group) -> str:
    return FEATURES.sub("", group.attention)


def _beside(group: Group, exact: Group) -> str:
    others = differing(group, exact)
    return f"{exact.name} (which differs in {', '.join(others)} too)" if others else exact.name
