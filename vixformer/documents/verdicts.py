"""What runs say of a document's claims: an effect beside the printed one, and a verdict for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vixformer.documents.base import Claim, Document, Measure, is_cost
from vixformer.results.evidence import Effect, Judged, Key, averaged, effect, judge

Values = Mapping[Measure, Mapping[str, Mapping[Key, float]]]
"""For each measure and recipe, a number for every repetition: per cent, milliseconds, bytes."""


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

    def __str__(self) -> str:
        """Our effect with its interval, as a person reads it."""
        if self.effect is None:
            return "not run"
        if not is_cost(self.claim.measure):
            return str(self.effect)
        low, middle, high = (math.exp(self.effect.mean + sign * self.effect.half) for sign in (-1, 0, 1))
        return f"x {middle:.2f} ({low:.2f} to {high:.2f})"


def verdicts(document: Document, values: Values[Key], images: Mapping[str, int], claims: Sequence[Claim] | None = None) -> list[Found]:
    """Of a document's claims that these runs have both sides of, judged as one family. `images` counts the test images of each recipe."""
    effects = [(claim, found) for claim in claims or document.claims if (found := _effect(claim, values, images)) is not None]
    judged = judge([(found, claim.says, _margin(document, claim)) for claim, found in effects])
    return [
        Found(claim, document.effect(claim), document.agrees(claim), document.margin(claim), found, verdict)
        for (claim, found), verdict in zip(effects, judged, strict=True)
    ]


def _margin(document: Document, claim: Claim) -> float:
    return math.log1p(document.margin(claim)) if is_cost(claim.measure) else document.margin(claim)


def _effect(claim: Claim, values: Values[Key], images: Mapping[str, int]) -> Effect | None:
    runs = values.get(claim.measure, {})
    one, other = paired_rows(claim, runs)
    if not one or not other:
        return None
    change = math.log if is_cost(claim.measure) else float
    sides = [averaged((key, change(value)) for name in names for key, value in runs[name].items()) for names in (one, other)]
    counted = min((images[name] for name in (*one, *other) if name in images), default=None)
    return effect(*sides, images=None if is_cost(claim.measure) else counted)


def paired_rows(claim: Claim, runs: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """The recipes of each side that have runs. Two sides of equal length are rows that differ in one thing: both of a pair or neither."""
    one, other = claim.sides()
    if len(one) == len(other):
        pairs = [(a, b) for a, b in zip(one, other, strict=True) if a in runs and b in runs]
        return [a for a, _ in pairs], [b for _, b in pairs]
    return [name for name in one if name in runs], [name for name in other if name in runs]
