"""Claims of the documents on the pages of results."""

from __future__ import annotations

import pytest

from tests.support.kept import invented, ran
from tools.pages import answers
from vixformer.documents import DOCUMENTS, Document
from vixformer.documents.claims import is_cost
from vixformer.results.evidence import effect


@pytest.mark.parametrize("found", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_every_claim_is_on_its_page_with_its_note(found: Document, made: dict[str, str]) -> None:
    lines = made[f"{found.name}.md"].splitlines()
    for claim in found.claims:
        (line,) = [line for line in lines if line.startswith(f"| {claim.text} ({claim.where})")]
        assert claim.note in line
        assert (found.agrees(claim) is False) == ("Its own tables say otherwise" in line), claim.text
        if (printed := found.effect(claim)) is not None:
            assert (f"| x {printed:.2f} |" if is_cost(claim.measure) else f"| {printed:+.2f} |") in line
    verdicts = {answer.found.judged.verdict for answer in answers.answers(found) if answer.decided}
    assert verdicts <= {"shown", "ruled out", "open"}


def test_an_effect_is_of_one_budget(no_runs: pytest.MonkeyPatch) -> None:
    """Three seeds of three epochs on both sides; one side has more of nine, which must not count."""
    (claim,) = [
        c
        for c in DOCUMENTS["hybrid"].claims
        if c.text == "on CIFAR-10 with few features and Performers everywhere ReLU beats softmax"
    ]
    one, other = (name for side in claim.sides() for name in side)
    ran(
        no_runs,
        one,
        *(invented(one, 90.0 + s, s) for s in range(3)),
        *(invented(one, 10.0, s, epochs=9) for s in range(3)),
    )
    ran(no_runs, other, *(invented(other, 88.0 + 0.9 * s, s) for s in range(3)))
    (answer,) = [a for a in answers.answers(DOCUMENTS["hybrid"]) if a.found.claim is claim]
    assert answer.found.effect == effect({s: 90.0 + s for s in range(3)}, {s: 88.0 + 0.9 * s for s in range(3)})
    assert "3 epochs on 9,000 images, 3 seeds" in answer.told
