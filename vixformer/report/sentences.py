"""What the runs say on the questions of the documents, each with its interval: placement, kernels, features, and exact attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vixformer.results.groups import Group, Layout, differing, twin
from vixformer.results.statistics import Difference, a_seed, difference

PLACES = {"all": "everywhere", "alternate": "in every other layer", "first": "in the first half", "last": "in the second half"}
MOST_PAIRS = 12
"""Models told one by one beside exact attention; more are in the table."""


def sentences(groups: Sequence[Group]) -> dict[str, list[str]]:
    """By data set and protocol: what was trained for longer, or on more, is not compared."""
    alike: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda g: (g.data, g.name)):
        alike.setdefault(group.protocol, []).append(group)
    return {protocol: lines for protocol, some in alike.items() if (lines := _of_one(some))}


def _of_one(groups: list[Group]) -> list[str]:
    placed = [(group, layout) for group in groups if (layout := group.layout()) is not None]
    return [*_placement(placed), *_kernels(placed), *_features(placed), *_against_exact(groups)]


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
    found = difference(ours, theirs, _images([*a, *b]))
    seeds = min(len(ours), len(theirs))
    return [f"{one} {_verb(found)} {other} by {abs(found.mean):.2f}{_noise(found)} points over {_count(seeds, 'seed')}: {_verdict(found)}."]


def _verb(found: Difference) -> str:
    return "beats" if found.mean > 0 else "loses to" if found.mean < 0 else "equals"


def _noise(found: Difference) -> str:
    return "" if found.half is None else f" ± {found.half:.2f}"


def _verdict(found: Difference) -> str:
    if found.sign == 0:
        return "not distinguishable"
    return "more than noise" if found.over_seeds else "more than the choice of test images explains, but one seed"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


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
    few, many = (_pick(placed, lambda layout, n=n: layout.features == n) for n in (counts[0], counts[-1]))
    return compared(many, few, f"The choice of {counts[-1]} features", f"that of {counts[0]}")


def _against_exact(groups: list[Group]) -> list[str]:
    pairs = [(group, exact) for group in groups if not group.exact and (exact := twin(group, groups)) is not None]
    if len(pairs) > MOST_PAIRS:
        return []
    return [line for group, exact in pairs for line in compared([group], [exact], group.name, _beside(group, exact))]


def _beside(group: Group, exact: Group) -> str:
    others = differing(group, exact)
    return f"{exact.name} (which differs in {', '.join(others)} too)" if others else exact.name
