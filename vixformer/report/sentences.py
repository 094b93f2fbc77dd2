"""What the runs say on the questions of the documents, each with its interval: placement, kernels, features, and exact attention."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vixformer.results.groups import UNIQUE, Group, Layout, comparable, counted, differing, twin
from vixformer.results.statistics import Difference, a_seed, by_seed, difference, paired
from vixformer.results.timings import inference_ratio, training_ratio

PLACES = {"all": "everywhere", "alternate": "in every other layer", "first": "in the first half", "last": "in the second half"}
MOST_PAIRS = 16
"""Models told one by one beside exact attention; more are in the table."""
FEATURES = re.compile(r"features=\d+")


def sentences(groups: Sequence[Group]) -> dict[str, list[str]]:
    """By data set and protocol: what was trained for longer, or on more, is not compared."""
    alike: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda g: (g.data, g.name)):
        alike.setdefault(group.protocol, []).append(group)
    return {protocol: lines for protocol, some in alike.items() if (lines := _of_one(some, groups))}


def _of_one(groups: list[Group], everyone: Sequence[Group]) -> list[str]:
    found = {}
    for label, some in comparable(groups).items():
        placed = [(group, layout) for group in some if (layout := group.layout()) is not None]
        found[label] = [*_placement(placed), *_kernels(placed), *_features(placed)]
    found = {label: lines for label, lines in found.items() if lines}
    lines = [line if len(found) == 1 else f"{label}: {line}" for label, some in found.items() for line in some]
    return [*lines, *_against_exact(groups), *_converted(groups, everyone)]


Placed = Sequence[tuple[Group, Layout]]


def _pick(placed: Placed, keep: Callable[[Layout], bool]) -> list[Group]:
    return [group for group, layout in placed if keep(layout)]


def _tops(groups: Iterable[Group]) -> list[float]:
    runs = (run for group in groups for run in group.runs)
    return a_seed((run.recipe.train.seed, run.summary["test_top1"]) for run in runs if run.summary)


def _images(groups: Sequence[Group]) -> int:
    return min(group.first["test_images"] for group in groups)


def compared(a: Sequence[Group], b: Sequence[Group], one: str, other: str) -> list[str]:
    """One sentence, or none where a side is missing."""
    if not a or not b:
        return []
    ours, theirs = _tops(a), _tops(b)
    return _told(difference(ours, theirs, _images([*a, *b])), min(len(ours), len(theirs)), one, other)


def _told(found: Difference, seeds: int, one: str, other: str) -> list[str]:
    over = f"points over {counted(seeds, 'seed')}"
    if found.sign == 0:
        return [f"{one} is not distinguishable from {other}: {found.plain} {over}."]
    verb = "beats" if found.mean > 0 else "loses to"
    caution = "" if found.over_seeds else ", more than the choice of test images explains, but another seed may say something else"
    return [f"{one} {verb} {other} by {found.plain.lstrip('+-')} {over}{caution}."]


def _placement(placed: Placed) -> list[str]:
    at = {place: _pick(placed, lambda layout, p=place: layout.place == p) for place in ("standard", *PLACES)}
    if sum(bool(some) for some in at.values()) < 3:
        return []
    lines = [
        line for place, words in PLACES.items() for line in compared(at[place], at["standard"], f"Efficient attention {words}", "exact")
    ]
    return [*lines, *compared(at["first"], at["last"], "Efficient first", "efficient last")]


def _kernels(placed: Placed) -> list[str]:
    lines = []
    for place, words in PLACES.items():
        relu, softmax = (
            _pick(placed, lambda layout, p=place, k=kernel: (layout.place, layout.kernel) == (p, k)) for kernel in ("relu", "softmax")
        )
        lines += compared(relu, softmax, f"With Performers {words}, the ReLU kernel", "softmax features")
    return lines


def _features(placed: Placed) -> list[str]:
    counts = sorted({layout.features for _, layout in placed if layout.features is not None})
    if len(counts) < 2:
        return []
    series = {n: {_series(g): g for g in _pick(placed, lambda layout, n=n: layout.features == n)} for n in (counts[0], counts[-1])}
    few, many = ([some[key] for key in series[counts[0]].keys() & series[counts[-1]].keys()] for some in series.values())
    return compared(many, few, f"The choice of {counts[-1]} features", f"that of {counts[0]}")


def _against_exact(groups: list[Group]) -> list[str]:
    pairs = [(group, exact) for group in groups if not group.exact and (exact := twin(group, groups)) is not None]
    lines = [f"{line[:-1]}{_costs(a, b)}." for a, b in pairs[:MOST_PAIRS] for line in compared([a], [b], a.name, _beside(a, b))]
    return [*lines, *([f"{len(pairs) - MOST_PAIRS} more stand beside exact attention in the table."] if pairs[MOST_PAIRS:] else [])]


def _costs(group: Group, exact: Group) -> str:
    """What it takes of the exact model's time and memory; of time only what is clear."""
    times = {"training": training_ratio(group, exact), "inference": inference_ratio(group, exact)}
    told = [f"{ratio} of its {what} time" for what, ratio in times.items() if ratio is not None and ratio.verdict != "undecided"]
    mine, theirs = (g.spread("peak_train_mb") for g in (group, exact))
    told += [f"{mine.mean / theirs.mean:.2f} of its memory"] if mine and theirs and theirs.mean else []
    return f"; it takes {', '.join(told)}" if told else ""


def _converted(groups: list[Group], everyone: Sequence[Group]) -> list[str]:
    """Beside the model each was made from, and beside one of the same attention that began afresh."""
    lines = []
    for group in groups:
        parent = UNIQUE.sub("", Path(group.first.get("conversion", {}).get("parent") or "").name)
        name = next((g.name for g in everyone if g.name.replace("/", "-").partition(" (")[0] == parent), parent or "the model")
        lines += _beside_parent(group, f"{name} (which it was made from)")
        fresh = [g for g in everyone if parent and _is_the_same_from_scratch(group, g)]
        lines += [
            line
            for g in fresh
            for line in compared(
                [group], [g], group.name, f"{g.name} (the same from scratch, {counted(g.runs[0].recipe.train.epochs, 'epoch')})"
            )
        ]
    return lines


def _beside_parent(group: Group, parent: str) -> list[str]:
    """Each run beside the very model that it was made from, whose accuracy on the same test images it recorded before it changed it."""
    mine, parents = [], []
    for run in group.runs:
        summary = run.summary or {}
        before = next((s.get("test_top1") for s in summary.get("conversion", {}).get("stages", ()) if s.get("stage") == "parent"), None)
        if before is not None:
            mine.append((run.recipe.train.seed, summary["test_top1"]))
            parents.append((run.recipe.train.seed, before))
    if not mine:
        return []
    now, then = by_seed(mine), by_seed(parents)
    found = paired(now, then) if len(now) > 1 else difference(list(now.values()), list(then.values()), _images([group]))
    return _told(found, len(now), group.name, parent)


def _is_the_same_from_scratch(group: Group, other: Group) -> bool:
    ours, theirs = (g.runs[0].recipe for g in (group, other))
    return theirs.train.weights is None and (ours.model, ours.data) == (theirs.model, theirs.data) and group is not other


def _series(group: Group) -> str:
    return FEATURES.sub("", group.attention)


def _beside(group: Group, exact: Group) -> str:
    others = differing(group, exact)
    return f"{exact.name} (which differs in {', '.join(others)} too)" if others else exact.name
