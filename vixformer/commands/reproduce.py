"""Reproduce a table or a figure of one of the five documents, next to its printed numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import PositiveInt

from vixformer.commands.flags import Count, Seconds
from vixformer.options import Folder, Means, as_typed, words
from vixformer.tables import Shown, markdown, say, table

if TYPE_CHECKING:
    from vixformer.documents import Document
    from vixformer.documents.claims import Exhibit
    from vixformer.documents.reproduce import Beside
    from vixformer.documents.verdicts import Found
    from vixformer.experiments.compare import Comparison


def _documents() -> Sequence[str]:
    from vixformer.documents import DOCUMENTS

    return list(DOCUMENTS)


DocumentName = Annotated[str, Means("a document", "DOCUMENT", _documents)]


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    document: DocumentName | None = words(None)
    """Name of a document. Left out: list the tables and figures of all documents."""
    table: PositiveInt | None = None
    """Number of the table in the document."""
    figure: PositiveInt | None = None
    """Number of the figure in the document."""
    budget: Seconds | None = None
    """Time for all runs, such as 20m or 2h; the same number of epochs and images for every row. Left out: the
    document's own."""
    seeds: Count = 1
    """Number of random seeds."""
    jobs: Count = 1
    """Number of runs to train in parallel (they share the CPU cores)."""
    out: Folder = Path("runs")
    """Folder for the runs; rerun the same command to resume."""
    list: bool = False
    """List the tables and figures of the document, with their rows."""
    hours: bool = False
    """List them with the hours that the document's own budget takes on this machine, timed in a minute or two."""
    line: str = as_typed()


def run(options: Options) -> None:
    from vixformer.documents import DOCUMENTS, find

    document = None if options.document is None else find(DOCUMENTS, options.document)
    if options.list or options.hours or document is None:
        return _list([document] if document is not None else list(DOCUMENTS.values()), options.hours)
    if (options.table is None) == (options.figure is None):
        names = ", ".join(f"--{exhibit.what} {exhibit.number}" for exhibit in document.exhibits)
        raise ValueError(f"which table or figure of {document.name}? Add one of: {names}")
    what, number = ("table", options.table) if options.table is not None else ("figure", options.figure)
    assert number is not None
    _run(document, document.exhibit(what, number), options)


def _list(documents: Sequence[Document], with_hours: bool) -> None:
    many = [(document, exhibit) for document in documents for exhibit in document.exhibits]
    columns = ["document", "exhibit", "what it shows", "rows"]
    rows = [[document.name, exhibit.name, exhibit.about, str(len(exhibit.recipes()))] for document, exhibit in many]
    told = []
    if with_hours:
        found, told = _hours([exhibit for _, exhibit in many])
        columns, rows = [*columns, "hours"], [[*row, hours] for row, hours in zip(rows, found, strict=True)]
    table(columns, rows, ("rows",))
    for line in told:
        say(line)
    say('"vix reproduce hybrid --table 2 --budget 2h --seeds 3" runs what fits into two hours.')
    if not with_hours:
        say("--hours estimates how long each takes on this machine.")


def _hours(exhibits: Sequence[Exhibit]) -> tuple[list[str], list[str]]:
    """The hours of each, and what to know about them."""
    from vixformer.documents.reproduce import hours
    from vixformer.measure.load import watched
    from vixformer.terminal import Steps
    from vixformer.terminal import watched as at_terminal

    found = []
    with Steps() as steps, watched() as timing:
        for i, exhibit in enumerate(exhibits, 1):
            steps("timing steps", i - 1, len(exhibits))
            if not at_terminal():
                print(f"timing steps of {exhibit.name}, {i} of {len(exhibits)}", file=sys.stderr)
            took = hours(exhibit.recipes())
            found.append(f"{took:,.1f}" if took < 10 else f"{took:,.0f}")
        steps("timing steps", len(exhibits), len(exhibits))
    meant = (
        "Hours: one seed at the document's own number of images and epochs on this machine, estimated from a few"
        " training steps with exact attention and the multiply-adds of every row."
    )
    return found, [meant, *([told] if (told := timing.told()) else [])]


def _run(document: Document, exhibit: Exhibit, options: Options) -> None:
    from vixformer.commands.watch import Watch
    from vixformer.documents.reproduce import beside, judged
    from vixformer.experiments.compare import compare
    from vixformer.recipes import load_recipe
    from vixformer.writing import write_text

    first = sorted(
        exhibit.recipes(), key=lambda name: name != exhibit.base
    )  # without it a short budget would leave nothing to compare with
    recipes = {name: load_recipe(name) for name in first}
    with Watch(exhibit.name, None, f"vix reproduce {options.line}", runs=len(recipes) * options.seeds) as watch:
        observer = watch.next if options.jobs == 1 else watch.side_by_side(len(recipes) * options.seeds)
        found = compare(
            recipes,
            options.out,
            seeds=options.seeds,
            budget=options.budget,
            jobs=options.jobs,
            observer=observer,
            tell=watch.tell,
        )
    title = f'"{document.title}", {exhibit.name}: {exhibit.about}'
    columns, cells = _table(exhibit, beside(document, exhibit, found))
    say(title)
    table(columns, cells)
    told = [*_notes(exhibit, found), *_claims(judged(document, found))]
    for line in told:
        say(line)
    path = options.out / f"{document.name}-{exhibit.what}-{exhibit.number}.md"
    write_text(path, f"# {title}\n\n{markdown(columns, cells)}\n" + "".join(f"* {line}\n" for line in told))
    say(f"This table is in {path}, with the runs beside it.")
    for name in exhibit.draws:
        say(f"Draw it with: vix report {options.out} --figures DIR (files {name}*)")


def _table(exhibit: Exhibit, rows: Sequence[Beside]) -> tuple[list[str], list[list[str]]]:
    """A column that has nothing of ours, such as the largest test accuracy of a short run, is left out."""
    shown = [c for c in exhibit.columns if any(row.printed.get(c.printed) for row in rows)]
    ours = {c.printed for c in shown if any(row.ours.get(c.printed) for row in rows)}
    columns = ["recipe"]
    for c in shown:
        columns += [f"{c.title}, printed", *([f"{c.here or c.title}, here"] if c.printed in ours else [])]
    columns += ["test top-1 % here", "difference"]
    cells = []
    for row in rows:
        line = [row.recipe]
        for c in shown:
            line += [row.printed.get(c.printed, ""), *([row.ours.get(c.printed, "")] if c.printed in ours else [])]
        cells.append([*line, row.top1, "" if row.apart is None else str(row.apart)])
    return columns, cells


def _notes(exhibit: Exhibit, found: Comparison) -> list[str]:
    from vixformer.commands.comparison import rest_of
    from vixformer.experiments.compare import TIMED_BATCH
    from vixformer.results.groups import counted

    notes = [
        "Test top-1 here is measured at the epoch chosen on validation; printed accuracies are as the document defines"
        " them."
    ]
    if exhibit.base is not None:
        notes.append(
            f"The difference is to {exhibit.base}, with its 95 % interval: paired by seed where runs share seeds."
        )
    notes.append(
        "Times here are of this machine: seconds of an epoch are extrapolated to all of its training images, and"
        f" inference was timed in turn, in batches of {TIMED_BATCH}."
    )
    if found.cut is not None:
        share = "all" if found.cut.fraction == 1 else f"{found.cut.fraction:.1%}"
        notes.append(
            f"The budget gave every row {counted(found.cut.epochs, 'epoch')} on {share} of the training images."
        )
    if found.not_run:
        notes.append(f"Not run: {'; '.join(found.not_run)}.")
    notes += rest_of(found)
    if found.timing is not None and (told := found.timing.told()):
        notes.append(told)
    return notes


def _claims(found: Sequence[Found]) -> list[str]:
    from vixformer.documents.verdicts import decidable

    lines = []
    for one in found:
        printed = f", printed {one.told_printed}" if one.told_printed else ""
        method = f", {one.effect.method}" if one.effect is not None and decidable(one.effect) else ""
        note = f" {one.claim.note}" if one.claim.note else ""
        lines.append(
            f"{one.judged.verdict}: {one.claim.text} (here {one}{method}{printed}; margin {one.told_margin}).{note}"
        )
    return lines
