"""docs/results/coverage.md: what each document names, and where it is here."""

from __future__ import annotations

from typing import get_args

from vixformer.documents import DOCUMENTS, Document
from vixformer.documents.claims import Exhibit, Kind, Named

TITLES: dict[Kind, str] = {
    "system": "Systems",
    "data": "Data and preprocessing",
    "setting": "Settings",
    "measure": "Measures",
    "exhibit": "Printouts and diagrams",
    "experiment": "Experiments",
    "outlook": "Outlook",
}
KINDS: tuple[Kind, ...] = get_args(Kind)
INTRO = (
    "For whoever knows one of the five documents and looks for a part of it here: every system, setting, measure,"
    " table, figure, experiment and outlook that a document names, what it is called here, and what differs. Recipes"
    " run with `vix train`, words are values of `--model.attention`, options are set as `--train.epochs 3`, figures are"
    " drawn by `vix report`. Tables and figures are reproduced by `vix reproduce`, which prints the document's figures"
    " beside yours."
)


def page() -> str:
    parts = ["# What the five documents name, and where it is", INTRO, _counts()]
    for document in DOCUMENTS.values():
        parts += [f'## "{document.title}"', _exhibits(document)]
        for kind in KINDS:
            names = [name for name in document.names if name.kind == kind]
            if names:
                parts += [f"### {TITLES[kind]}: {document.name}", _names(names)]
    return "\n\n".join(parts)


def _counts() -> str:
    lines = [
        "| document | tables and figures | named | here | of them with a difference | not here |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for document in DOCUMENTS.values():
        here = [name for name in document.names if name.here]
        counts = (
            len(document.exhibits),
            len(document.names),
            len(here),
            sum(bool(n.differs) for n in here),
            len(document.names) - len(here),
        )
        lines.append(f'| "{document.title}" ({document.year}) | ' + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)


def _exhibits(document: Document) -> str:
    lines = ["| table or figure | what it shows | rows | run it | drawn as |", "|---|---|--:|---|---|"]
    for exhibit in document.exhibits:
        command = f"`vix reproduce {document.name} --{exhibit.what} {exhibit.number}`"
        drawn = ", ".join(f"`{name}`" for name in exhibit.draws)
        lines.append(f"| {exhibit.name} | {exhibit.about} | {_rows(exhibit)} | {command} | {drawn} |")
    return "\n".join(lines)


def _rows(exhibit: Exhibit) -> str:
    return str(len(exhibit.recipes()))


def _names(names: list[Named]) -> str:
    lines = ["| named | where | here | what differs |", "|---|---|---|---|"]
    for name in names:
        lines.append(
            f"| {name.what} | {name.where} | {', '.join(map(_here, name.here)) or 'not here'} | {name.differs} |"
        )
    return "\n".join(lines)


def _here(named: str) -> str:
    kind, _, what = named.partition(" ")
    if kind == "page":
        return f"[{what.rpartition('/')[2]}]({what})"
    if kind == "tool":
        return f"`python -m tools.{what}`"
    what = what.replace("|", "\\|")
    return f"`{what}`" if kind in ("command", "word") else f"{kind} `{what}`"
