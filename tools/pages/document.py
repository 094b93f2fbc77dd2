"""A document's page: its claims with verdicts, its tables beside what its recipes gave here, its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tools.pages.answers import Answer, answers
from tools.pages.blocks import Block, blocks
from tools.pages.costs import TIMED, counted, peaks, ranges, times, timing
from tools.pages.figures import FOLDER, Drawing, attention_files, by_data, drawings, files
from tools.pages.tables import EVERY, MEMORY, REPORTED, RUNS, TIMES, Column, either, mean_of, settings, table
from tools.runs import Kept
from vixformer import list_recipes
from vixformer.documents.claims import Column as Printed
from vixformer.documents.claims import Document, Exhibit, is_cost
from vixformer.results.cells import in_markdown
from vixformer.results.evidence import Judged
from vixformer.results.runs import spread
from vixformer.results.schema import AVERAGES

MORE = {
    "test_top1": "test top-1",
    "test_max_top1": "largest test top-1 over epochs",
    "test_last_top1": "last test top-1",
    "val_top1": "validation top-1",
    "train_top1": "training top-1, last epoch",
    "epochs": "epochs until it stopped",
}
"""Beside a document's own columns, where some run has them."""


def page(document: Document, about: str, *sections: str) -> str:
    tables = [exhibit for exhibit in document.exhibits if exhibit.what == "table"]
    parts = [
        f'# "{document.title}"',
        about,
        "## Claims",
        _short(answers(document)),
        _claims(answers(document)),
        CLAIMS,
        *(part for exhibit in tables for part in _exhibit(exhibit)),
        *_others(document, tables),
        *sections,
        *_memory(document),
        *_learned(document),
        *_figures(document),
    ]
    return "\n\n".join(filter(None, parts))


# --- claims

CLAIMS = (
    "Printed effects are differences in points of top-1, and ratios (x) for times and memory. Ours have their 95 %"
    " interval: paired by seed and split where runs share them, Welch's otherwise. *Shown*: the effect lies on the"
    " claim's side of zero. *Ruled out*: the reverse is shown, or the effect is within the margin, which is half of the"
    " printed effect, or 0.5 points (costs: 5 %) where that is small or not printed. *Open*: neither; one seed decides"
    " nothing. Verdicts have Holm's correction for all claims of the page."
)


def _short(found: Sequence[Answer]) -> str:
    done = [answer for answer in found if answer.decided]
    counts = Counter(answer.found.judged.verdict for answer in done)
    against = sum(answer.found.agrees is False for answer in found)
    parts = [f"{counts[verdict]} {verdict}" for verdict in ("shown", "ruled out", "open")]
    told = f"**In short:** of {len(found)} claims, {', '.join(parts)}, {len(found) - len(done)} without runs here."
    told += (
        f" {against} of them {'is' if against == 1 else 'are'} not what the document's own tables say."
        if against
        else ""
    )
    for verdict in ("shown", "ruled out"):
        named = [a.found.claim.text for a in done if a.found.judged.verdict == verdict]
        told += f" {verdict.capitalize()}: {'; '.join(named)}." if named else ""
    return told


def _claims(found: Sequence[Answer]) -> str:
    lines = ["| claim | printed | here | margin | verdict | from |", "|---|--:|--:|--:|---|---|"]
    for answer in found:
        one = answer.found
        cost = is_cost(one.claim.measure)
        printed = "" if one.printed is None else f"x {one.printed:.2f}" if cost else f"{one.printed:+.2f}"
        against = "Its own tables say otherwise. " if one.agrees is False else ""
        note = f"<br>*{in_markdown(against + one.claim.note).strip()}*" if against or one.claim.note else ""
        limit = f"{100 * one.margin:.0f} %" if cost else f"{one.margin:.2f}"
        verdict = _verdict(one.judged) if answer.decided else ""
        here = str(one) if answer.decided else ""
        lines.append(
            f"| {one.claim.text} ({one.claim.where}){note} | {printed} | {here} | {limit} | {verdict} | {answer.told} |"
        )
    return "\n".join(lines)


def _verdict(judged: Judged) -> str:
    """With what the decisive test says, where it is not the claim's own direction."""
    if judged.verdict == "open":
        return "open"
    how = (
        " (within the margin)"
        if judged.direction == "within"
        else ""
        if judged.verdict == "shown"
        else " (the reverse is shown)"
    )
    return f"**{judged.verdict}**{how}"


# --- tables


def _exhibit(exhibit: Exhibit) -> list[str]:
    names = exhibit.recipes()
    return [f"## Table {exhibit.number}: {exhibit.about}", *_tables(names, exhibit.columns, exhibit.base)]


def _tables(names: Sequence[str], printed: Sequence[Printed], base: str | None) -> list[str]:
    """The first block of runs, what was timed, and the other blocks folded."""
    shown, *others = blocks(names) or [None]
    runs = {} if shown is None else shown.runs
    trained = any(c.ours not in TIMED for c in printed) or bool(runs)
    parts = [
        settings(runs) if trained else "",
        timing(names, base),
        table(names, _columns(names, printed, base, shown)),
        ranges(names, base),
    ]
    for block in others:
        if block is not None:
            rows = [name for name in names if name in block.runs]
            when = "" if block.today else ", of recipes before their last change"
            inner = "\n\n".join([settings(block.runs), table(rows, _ours(rows, base, block, set()))])
            parts.append(
                f"<details markdown='1'><summary>Other runs: {block.budget}{when}</summary>\n\n{inner}\n\n</details>"
            )
    return parts


def _columns(names: Sequence[str], printed: Sequence[Printed], base: str | None, block: Block | None) -> list[Column]:
    found: list[Column] = []
    for c in printed:
        found.append((f"{c.title}, printed", lambda name, c=c: REPORTED.get(name, {}).get(c.printed, "")))
        if c.ours in TIMED:
            found += times(c, TIMED[c.ours], base)
        elif c.ours == "peak_train_mb":
            found += peaks(base)
        elif c.ours == "parameters_in_modules":
            found.append((f"{c.title}, here", counted))
        elif c.ours is not None and block is not None and c.ours not in MORE:
            found.append(
                (f"{c.title}, here", lambda name, c=c, b=block: mean_of(b.runs.get(name, []), c.ours or "", c.digits))
            )
    return [*found, *([] if block is None else _ours(names, base, block, {c.ours for c in printed}))]


def _ours(names: Sequence[str], base: str | None, block: Block, printed: set[str | None]) -> list[Column]:
    def mean(key: str) -> Column:
        digits = 0 if key == "epochs" else 2
        return (
            f"{MORE[key]}, here",
            lambda name: mean_of([_with_train(run) for run in block.runs.get(name, [])], key, digits),
        )

    keys = [
        key for key in MORE if key in printed or (key != "val_top1" and (key != "epochs" or _stopped(names, block)))
    ]
    found = [mean(key) for key in keys]
    if base is not None:
        column: Column = (f"minus `{base.rpartition('/')[2]}`", lambda name: str(block.apart(name, base) or ""))
        found.insert(1 + keys.index("test_top1"), column)
    return [
        *found,
        (
            "runs",
            lambda name: str(len(block.runs[name])) if name in block.runs else "below" if name in EVERY else "not run",
        ),
    ]


def _stopped(names: Sequence[str], block: Block) -> bool:
    return any(run.summary.get("stopped_early") for name in names for run in block.runs.get(name, []))


def _with_train(run: Kept) -> Kept:
    last = run.history[-1].get("train_top1") if run.history else None
    return Kept(run.recipe, {**run.summary, "train_top1": last}, run.history)


def _others(document: Document, tables: Sequence[Exhibit]) -> list[str]:
    """Rows that no table of the document prints, and that ran, were timed, or that a claim is about."""
    printed = {name for exhibit in tables for name in exhibit.recipes()}
    claimed = {name for claim in document.claims for side in claim.sides() for name in side}
    own = [
        name
        for name in list_recipes()
        if name.partition("/")[0] == document.name or name.startswith(f"{document.name}-grid/")
    ]
    names = [name for name in own if name not in printed and (name in RUNS or name in TIMES or name in claimed)]
    parts: list[str] = []
    for data, some in by_data(names).items():
        columns = document.exhibits[0].columns
        parts += [
            f"## Rows that no table prints: {data}",
            *_tables(some, [c for c in columns if c.ours in TIMED], None),
        ]
    return parts


# --- classes, memory, figures


def class_scores(names: Sequence[str]) -> str:
    """Precision, recall and F1 of each class, of the block of runs that a table of these rows shows."""
    block = next(iter(blocks(names)), None)
    if block is None:
        return ""
    lines = []
    for name, runs in block.runs.items():
        scores = [run.summary["per_class"] for run in runs]
        rows = ["| class | precision, % | recall, % | F1, % |", "|---|--:|--:|--:|"]
        for label in (label for label in scores[0] if label != AVERAGES[0]):
            cells = [str(spread([100 * s[label][key] for s in scores])) for key in ("precision", "recall", "f1-score")]
            rows.append(f"| {in_markdown(label)} | {' | '.join(cells)} |")
        lines.append(f"<details markdown='1'><summary>{name}</summary>\n\n" + "\n".join(rows) + "\n\n</details>")
    return "\n\n".join(
        ["## Class by class", f"Test images, {block.budget}; mean ± standard deviation over runs.", *lines]
    )


def _memory(document: Document) -> list[str]:
    drawn = [name for name in files(document) if name.startswith(f"{document.name}-memory")]
    if not drawn:
        return []
    batches = sorted({MEMORY[name]["batch"] for name in document.printed if name in MEMORY})
    return [
        "## Memory",
        (
            f"Peak memory of a training step above what the process had loaded, batches of {either(batches)}, the"
            " median of three. The documents' exact attention keeps all its weights for backward"
            " (`softmax(naive=true)`). Ours is fused and does not, so that its memory is close to that of linear"
            " attention; on a CPU it is not fused where weights are dropped in training (`drop`)."
        ),
        *(f"![Memory of exact attention, naive and as it runs here, and of others](figures/{name})" for name in drawn),
    ]


def _learned(document: Document) -> list[str]:
    name = f"{document.name}-learned.svg"
    if name not in files(document):
        return []
    about = (
        "Numbers that a mechanism learned, after every epoch: of a mixture of kernels its weight and its temperature,"
        " for one."
    )
    return ["## What mechanisms learned", about, f"![Learned numbers by epoch](figures/{name})"]


def _figures(document: Document) -> list[str]:
    about = (
        "Drawn by the definitions of `vix report` from the runs of the tables above, and from what was timed in turn."
    )
    return [
        "## Figures",
        about,
        *(part for drawing in drawings(document) for part in _drawn(drawing)),
        *_looks(document),
    ]


def _looks(document: Document) -> list[str]:
    about = (
        "Bright is looked at, each map stretched to its own range; rollout multiplies the maps of all layers. The maps"
        " need weights, which are not kept here: `python -m tools.pages RUNS` draws them from run folders."
    )
    there = [name for name in attention_files(document) if (FOLDER / name).exists()]
    start = f"{document.name}-attention-"
    missing = [name.removeprefix(start).removesuffix(".png") for name in attention_files(document) if name not in there]
    waits = (
        f"Not drawn yet: maps of models trained on {' and '.join(missing)}, which wait for run folders."
        if missing
        else ""
    )
    return ["### Where models look", *(f"![Maps of attention](figures/{name})" for name in there), about, waits]


def _drawn(drawing: Drawing) -> list[str]:
    about, there = drawing.exhibits[0].about, {name: (FOLDER / name).exists() for name in drawing.pictures}
    says = list(dict.fromkeys(figure.says for figure in drawing.charts.values() if figure.name != "times"))
    if any(figure.name == "times" for figure in drawing.charts.values()):
        says.append("Means of calls timed in turn; the band is one standard deviation of the calls.")
    says += (
        [f"Drawn from {', '.join(drawing.partial)}; the others were not run with this budget."]
        if drawing.partial
        else []
    )
    images = [
        f"*{draw}* waits for the images of `{recipe}`"
        for name, (draw, recipe) in drawing.pictures.items()
        if not there[name]
    ]
    waits = [*drawing.waits, *images]
    return [
        f"### {drawing.title}",
        *(f"![{figure.title}](figures/{name})" for name, figure in drawing.charts.items()),
        *(f"![{about}](figures/{name})" for name in drawing.pictures if there[name]),
        " ".join(says),
        f"Not drawn yet: {'; '.join(waits)}." if waits else "",
    ]
