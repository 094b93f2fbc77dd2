"""What runs say of a document's claims: an effect beside the printed one, and a verdict for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from vixformer.documents.claims import Claim, Document, Measure, is_cost
from vixformer.results.evidence import Effect, Judged, Key, Says, averaged, effect, judge

Values = Mapping[Measure, Mapping[str, Mapping[Key, float]]]
"""For each measure and recipe, a number for every repetition: per cent, milliseconds, bytes."""
UNDECIDED = Judged("open", 1.0, "within")
"""Of a claim without an interval over seeds."""


@dataclass(frozen=True)
class Found:
    """A claim, and what runs say of it."""

    claim: Claim
    printed: float | None
    agrees: bool | None
    """Whether the document's own tables say what it claims."""
    margin: float
    effect: Effect | None
    """In points, or the logarithm of a ratio."""
    judged: Judged

    @property
    def told_printed(self) -> str:
        """The document's own effect; empty where its tables do not hold it."""
        if self.printed is None:
            return ""
        return f"x {self.printed:.2f}" if is_cost(self.claim.measure) else f"{self.printed:+.2f}"

    @property
    def told_margin(self) -> str:
        return f"{100 * self.margin:.0f} %" if is_cost(self.claim.measure) else f"{self.margin:.2f}"

    def __str__(self) -> str:
        """Our effect with its interval, as a person reads it."""
        if self.effect is None:
            return "not run"
        if not is_cost(self.claim.measure):
            return str(self.effect)
        low, middle, high = (math.exp(self.effect.mean + sign * self.effect.half) for sign in (-1, 0, 1))
        return f"x {middle:.2f} ({low:.2f} to {high:.2f})"


def verdicts(
    document: Document, values: Values[Key], images: Mapping[str, int], claims: Sequence[Claim] | None = None
) -> list[Found]:
    """Of a document's claims that these runs have both sides of. `images` counts the test images of each recipe. All
    runs of a recipe must have had the same budget."""
    effects = [(claim, claim_effect(claim, values, images)) for claim in claims or document.claims]
    return judge_claims(document, [(claim, found) for claim, found in effects if found is not None])


def judge_claims(document: Document, effects: Sequence[tuple[Claim, Effect | None]]) -> list[Found]:
    """One family: those with an interval over seeds are corrected for their number, the others are open."""
    tested: dict[int, tuple[Effect | None, Says, float]] = {
        i: (found, claim.says, _margin(document, claim)) for i, (claim, found) in enumerate(effects) if decidable(found)
    }
    verdict = dict(zip(tested, judge(list(tested.values())), strict=True))
    return [
        Found(
            claim,
            document.effect(claim),
            document.agrees(claim),
            document.margin(claim),
            found,
            verdict.get(i, UNDECIDED),
        )
        for i, (claim, found) in enumerate(effects)
    ]


def decidable(found: Effect | None) -> bool:
    return found is not None and found.method in ("paired", "welch")


def _margin(document: Document, claim: Claim) -> float:
    return math.log1p(document.margin(claim)) if is_cost(claim.measure) else document.margin(claim)


def claim_effect(claim: Claim, values: Values[Key], images: Mapping[str, int]) -> Effect | None:
    runs = values.get(claim.measure, {})
    one, other = counted_rows(claim, runs)
    if not one or not other:
        return None
    change = math.log if is_cost(claim.measure) else float
    sides = [_side(names, runs, change) for names in (one, other)]
    counted = min((images[name] for name in (*one, *other) if name in images), default=None)
    return effect(*sides, images=None if is_cost(claim.measure) else counted)


def _side(
    names: Sequence[str], runs: Mapping[str, Mapping[Key, float]], change: Callable[[float], float]
) -> dict[Key, float]:
    """The mean of its rows, for the repetitions that all of them have: rows that lack one would shift that one's
    mean."""
    shared = set.intersection(*(set(runs[name]) for name in names))
    return averaged((key, change(value)) for name in names for key, value in runs[name].items() if key in shared)


def counted_rows(claim: Claim, runs: Mapping[str, Mapping[Key, float]]) -> tuple[list[str], list[str]]:
    """Rows with one run are left out where others have more."""
    repeated = {name: values for name, values in runs.items() if len(values) > 1}
    one, other = paired_rows(claim, repeated)
    return (one, other) if one and other else paired_rows(claim, runs)


def paired_rows(claim: Claim, runs: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """The recipes of each side that have runs. Two sides of equal length are rows that differ in one thing: both of a
    pair or neither. Otherwise a row counts where the other side has one in its folder, such as the same experiment."""
    one, other = claim.sides()
    if len(one) == len(other):
        pairs = [(a, b) for a, b in zip(one, other, strict=True) if a in runs and b in runs]
        return [a for a, _ in pairs], [b for _, b in pairs]
    one, other = [name for name in one if name in runs], [name for name in other if name in runs]
    shared = {_folder(name) for name in one} & {_folder(name) for name in other}
    return [name for name in one if _folder(name) in shared], [name for name in other if _folder(name) in shared]


def _folder(name: str) -> str:
    return name.rpartition("/")[0]
