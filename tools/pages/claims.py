"""docs/results/claims.md: every claim of the five documents, and what the runs here say of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tools.pages.answers import Answer, answers
from tools.pages.power import Cost, costs_to_decide
from vixformer.documents import DOCUMENTS, Document

INTRO = (
    "For whoever wants to know which of the documents' claims hold: each has a row with the effect that the document"
    " prints, ours with its 95 % interval, and a verdict against a margin that was set before the runs. The pages of"
    " the documents have the tables."
)
HOW = """\
* A claim is **shown** where the interval of our effect lies on the side of zero that it names, **ruled out** where
  it lies on the other side or, whole, within the margin, and *open* where neither can be said. A claim that two
  things are equal is the reverse: within the margin is *shown*.
* The margin is half of the effect that the document prints, at least 0.5 points; of times and memory it is half of
  what the ratio differs from 1, at least 5 %.
* A difference is paired by seed and split where both sides have them, and Welch's otherwise; a claim about several
  recipes compares their means. The claims of a document are one family: their p values are corrected for their
  number (Holm).
* Runs of different epochs, images, resolutions or versions of a recipe are never in one effect. Our budgets are
  smaller than the documents': a verdict holds for the budget beside it.
* *Own table*: whether the effect in the document's own table is what its text claims.
* Hours of open claims: what more seeds at the same budget take on one thread, so that a difference as large as ours
  would be decided with a probability of 80 %, corrected for the number of open claims. Of claims without runs: three
  seeds at the document's largest budget."""


def page() -> str:
    found = {document.name: answers(document) for document in DOCUMENTS.values()}
    every = [answer for some in found.values() for answer in some]
    parts = [
        "# Which claims of the five documents hold",
        _in_short(every),
        INTRO,
        _summary(found),
        "## How to read the tables",
        HOW,
    ]
    parts += [part for document in DOCUMENTS.values() for part in _section(document, found[document.name])]
    return "\n\n".join(parts)


def verdict(answer: Answer) -> str:
    return answer.found.judged.verdict


def _in_short(every: Sequence[Answer]) -> str:
    counts = Counter(map(verdict, every))
    unrun = sum(not answer.decided for answer in every)
    against = sum(answer.found.agrees is False for answer in every)
    return (
        f"**{counts['shown']} shown, {counts['ruled out']} ruled out, {counts['open']} open** of {len(every)} claims. "
        f"Of the open ones, {unrun} have no runs here yet. {against} claims are not what the document's own table says."
    )


def _summary(found: dict[str, list[Answer]]) -> str:
    lines = [
        "| document | claims | shown | ruled out | open | without runs | against its own table |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, some in found.items():
        counts = Counter(map(verdict, some))
        numbers = [len(some), counts["shown"], counts["ruled out"], counts["open"]]
        numbers += [sum(not answer.decided for answer in some), sum(answer.found.agrees is False for answer in some)]
        lines.append(f"| [{DOCUMENTS[name].title}]({name}.md) | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def _section(document: Document, found: Sequence[Answer]) -> Iterable[str]:
    yield f"## {document.title} ({document.year})"
    if document.note:
        yield document.note
    lines = ["| claim | where | own table | printed | here | margin | verdict | from | hours to decide |"]
    lines.append("|---|---|---|--:|--:|--:|---|---|--:|")
    costs = costs_to_decide(found)
    for answer, cost in zip(found, costs, strict=True):
        claim = answer.found.claim
        note = f"<br>*{claim.note}*" if claim.note else ""
        cells = [
            f"{claim.text}{note}",
            claim.where,
            OWN[answer.found.agrees],
            answer.found.told_printed,
            str(answer.found) if answer.decided else "",
        ]
        cells += [answer.found.told_margin, _verdict(answer), answer.told, _hours(cost)]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    yield "\n".join(lines)


OWN = {True: "agrees", False: "**differs**", None: ""}


def _verdict(answer: Answer) -> str:
    return "open" if verdict(answer) == "open" else f"**{verdict(answer)}**"


def _hours(cost: Cost | None) -> str:
    if cost is None:
        return ""
    if cost.hours is None:
        return cost.told
    return f"{_hours_in_words(cost.hours)} ({cost.told})"


def _hours_in_words(hours: float) -> str:
    return f"{hours:.1f}" if hours < 10 else f"{hours:,.0f}"
