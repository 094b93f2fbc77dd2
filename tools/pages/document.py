"""A document's page: its claims with verdicts, its tables beside what its recipes gave here, its figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from tools.pages.answers import Answer, answers
from tools.pages.blocks import Block, blocks
from tools.pages.figures import FOLDER, by_data, drawings, files
from tools.pages.tables import MEMORY, REPORTED, RUNS, TIMES, Column, mean_of, settings, table
from tools.runs import TIMINGS, Kept
from tools.timings import NAIVE, epoch_images, kept_timings, ratio_of
from vixformer import list_recipes, load_recipe
from vixformer.data.base import DataSet
from vixformer.documents.base import Column as Printed
from vixformer.documents.base import Document, Exhibit, is_cost
from vixformer.measure.machine import in_words
from vixformer.results.cells import in_markdown
from vixformer.results.runs import spread
from vixformer.results.schema import AVERAGES

TIMED = {"seconds_an_epoch": "step", "ms_a_step": "step", "inference_ms": "inference"}
"""Columns of a document that stand beside what was timed in turn, not beside seconds of runs, which had other work beside them."""
GPU = kept_timings(TIMINGS / "cuda")
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
        *(part for exhibit in tables for part in _exhibit(document, exhibit)),
        *_others(document, tables),
        *sections,
        *_memory(document),
        *_figures(document),
    ]
    return "\n\n".join(filter(None, parts))


# --- claims

CLAIMS = (
    "Printed effects are differences in points of top-1, and ratios (x) for times and memory. Ours have their 95 % interval: paired by seed "
    "and split where runs share them, Welch's otherwise. *Shown*: the claim's side of zero is all that the interval leaves. *Ruled out*: "
    "the opposite is shown, or two one-sided tests put the effect within the margin, which is half of the printed effect, or 0.5 points "
    "(costs: 5 %) where that is small or not printed. *Open*: neither; one seed decides nothing. Verdicts have Holm's correction for all "
    "claims of the page."
)


def _short(found: Sequence[Answer]) -> str:
    done = [answer for answer in found if answer.decided]
    counts = Counter(answer.found.judged.verdict for answer in done)
    against = sum(answer.found.agrees is False for answer in found)
    parts = [f"{counts[verdict]} {verdict}" for verdict in ("shown", "ruled out", "open")]
    told = f"**In short:** of {len(found)} claims, {', '.join(parts)}, {len(found) - len(done)} without runs here."
    told += f" {against} of them are not what the document's own tables say." if against else ""
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
        verdict = f"**{one.judged.verdict}**" if one.judged.verdict != "open" else "open" if answer.decided else ""
        here = str(one) if answer.decided else ""
        lines.append(f"| {one.claim.text} ({one.claim.where}){note} | {printed} | {here} | {limit} | {verdict} | {answer.told} |")
    return "\n".join(lines)


# --- tables


def _exhibit(document: Document, exhibit: Exhibit) -> list[str]:
    names = exhibit.recipes()
    return [f"## Table {exhibit.number}: {exhibit.about}", *_tables(document, names, exhibit.columns, exhibit.base)]


def _tables(document: Document, names: Sequence[str], printed: Sequence[Printed], base: str | None) -> list[str]:
    """The first block of runs, what was timed, and the other blocks folded."""
    shown, *others = blocks(names) or [None]
    runs = {} if shown is None else shown.runs
    trained = any(c.ours not in TIMED for c in printed) or bool(runs)
    parts = [
        settings(runs) if trained else "",
        _timing(names, base),
        table(names, _columns(names, printed, base, shown)),
        _range(names, base),
    ]
    for block in others:
        if block is not None:
            rows = [name for name in names if name in block.runs]
            when = "" if block.today else ", of recipes before their last change"
            inner = "\n\n".join([settings(block.runs), table(rows, _ours(rows, base, block, set()))])
            parts.append(f"<details><summary>Other runs: {block.budget}{when}</summary>\n\n{inner}\n\n</details>")
    return parts


def _columns(names: Sequence[str], printed: Sequence[Printed], base: str | None, block: Block | None) -> list[Column]:
    found: list[Column] = []
    for c in printed:
        found.append((f"{c.title}, printed", lambda name, c=c: REPORTED.get(name, {}).get(c.printed, "")))
        if c.ours in TIMED:
            found += _times(c, TIMED[c.ours], base)
        elif c.ours == "peak_train_mb":
            found += _peaks(base)
        elif c.ours is not None and block is not None and c.ours not in MORE:
            found.append((f"{c.title}, here", lambda name, c=c, b=block: mean_of(b.runs.get(name, []), c.ours or "", c.digits)))
    return [*found, *([] if block is None else _ours(names, base, block, {c.ours for c in printed}))]


def _times(c: Printed, what: str, base: str | None) -> list[Column]:
    def told(name: str) -> str:
        mine, theirs = (REPORTED.get(n, {}).get(c.printed) for n in (name, base or ""))
        return f"{float(mine) / float(theirs):.2f}" if mine and theirs else ""

    def here(name: str) -> str:
        ratio = None if base is None else ratio_of(TIMES, name, base, what)
        return "" if ratio is None else "1" if name == base else str(ratio)

    to = "" if base is None else f"to `{base.rpartition('/')[2]}`"
    relative = [] if base is None else [(f"{c.title} {to}, printed", told)]
    beside = [] if base is None else [(f"{c.title} {to}, here", here)]
    return [
        *relative,
        (f"{c.title}, here", lambda name: _absolute(TIMES, name, c, what)),
        *beside,
        (f"{c.title}, here on a GPU", lambda name: _absolute(GPU, name, c, what)),
    ]


def _absolute(times: dict[str, dict[str, object]], name: str, c: Printed, what: str) -> str:
    """In the unit of the document: milliseconds a batch, or seconds over an epoch or the test images."""
    timing = times.get(name)
    if timing is None:
        return ""
    ms: float = timing[f"{what}_ms"]["median"]  # pyright: ignore[reportIndexIssue]
    if "seconds" not in c.printed:
        return f"{ms:,.1f}"
    recipe = load_recipe(name)
    images = epoch_images(recipe) if what == "step" else DataSet.member(recipe.data.name.partition(":")[0]).counts["test"]
    seconds = images / timing["batch"] * ms / 1e3  # pyright: ignore[reportOperatorIssue]
    return f"{seconds:,.0f}" if seconds >= 100 else f"{seconds:,.1f}"


def _peaks(base: str | None) -> list[Column]:
    def peak(name: str) -> float | None:
        return statistics.median(MEMORY[name]["train_mb"]) if name in MEMORY else None

    def absolute(name: str) -> str:
        fused, whole = peak(name), peak(name + NAIVE)
        return "" if fused is None else f"{fused:,.0f}" if whole is None else f"{whole:,.0f} (fused {fused:,.0f})"

    def relative(name: str) -> str:
        exact = None if base is None or base + NAIVE not in MEMORY else peak(base + NAIVE)
        fused, whole = peak(name), peak(name + NAIVE)
        if exact is None or fused is None or MEMORY[name]["batch"] != MEMORY[f"{base}{NAIVE}"]["batch"]:
            return ""
        return f"{100 * fused / exact:.0f}" if whole is None else f"{100 * whole / exact:.0f} (fused {100 * fused / exact:.0f})"

    return [("peak MiB, here", absolute), ("naive exact = 100, here", relative)]


def _ours(names: Sequence[str], base: str | None, block: Block, printed: set[str | None]) -> list[Column]:
    def mean(key: str) -> Column:
        return (
            f"{MORE[key]}, here",
            lambda name: mean_of([_with_train(run) for run in block.runs.get(name, [])], key, 0 if key == "epochs" else 2),
        )

    keys = [key for key in MORE if key in printed or (key != "val_top1" and (key != "epochs" or _stopped(names, block)))]
    found = [mean(key) for key in keys]
    if base is not None:
        column: Column = (f"minus `{base.rpartition('/')[2]}`", lambda name: str(block.apart(name, base) or ""))
        found.insert(1 + keys.index("test_top1"), column)
    return [*found, ("runs", lambda name: str(len(block.runs[name])) if name in block.runs else "not run")]


def _stopped(names: Sequence[str], block: Block) -> bool:
    return any(run.summary.get("stopped_early") for name in names for run in block.runs.get(name, []))


def _with_train(run: Kept) -> Kept:
    last = run.history[-1].get("train_top1") if run.history else None
    return Kept(run.recipe, {**run.summary, "train_top1": last}, run.history)


def _timing(names: Sequence[str], base: str | None) -> str:
    timed = [name for name in names if name in TIMES]
    if not timed:
        return ""
    batches = sorted({TIMES[name]["batch"] for name in timed})
    own = sorted({load_recipe(name).train.batch_size for name in timed})
    images = sorted({epoch_images(load_recipe(name)) for name in timed})
    calls = sorted({TIMES[name]["step_ms"]["count"] for name in timed})
    machines = sorted({in_words(TIMES[name]["machine"]) for name in timed})
    whole = all("step_calls" in TIMES[name] for name in timed)
    told = [
        f"Times here: the median of {_or(calls)} training steps and of as many inferences of each row, in batches of {_or(batches)}"
        + (f" (the recipes': {_or(own)})" if own != batches else ""),
        f"seconds extrapolated to an epoch of {_or(images)} images or to the test images, on {' or '.join(machines)}.",
    ]
    if base is not None:
        known = (
            "are of pairs of calls" if whole else "are from the spread of each row, because single calls were not kept, and wider for it"
        )
        told.append(f"Ratios are of rows timed in turn; their 95 % intervals {known}.")
    return ", ".join(told[:2]) + " " + " ".join(told[2:])


def _range(names: Sequence[str], base: str | None) -> str:
    """Over all rows that were timed, trained or not."""
    parts = []
    for what, verb in (("step", "a training step takes"), ("inference", "inference takes")):
        found = {name: r for name in names if base and name != base and (r := ratio_of(TIMES, name, base, what)) is not None}
        if len(found) > 1 and base:
            ratios = [r.ratio for r in found.values()]
            verdicts = Counter(r.verdict for r in found.values())
            told = ", ".join(f"{verdicts[v]} {v}" for v in ("faster", "slower", "undecided") if verdicts[v])
            parts.append(f"{verb} {min(ratios):.2f} to {max(ratios):.2f} times that of `{base}` over all {len(found)} rows timed ({told})")
    return f"{'; '.join(parts).capitalize()}." if parts else ""


def _others(document: Document, tables: Iterable[Exhibit]) -> list[str]:
    """Rows that no table of the document prints, and that ran, were timed, or that a claim is about."""
    printed = {name for exhibit in tables for name in exhibit.recipes()}
    claimed = {name for claim in document.claims for side in claim.sides() for name in side}
    own = [name for name in list_recipes() if name.partition("/")[0] == document.name or name.startswith(f"{document.name}-grid/")]
    names = [name for name in own if name not in printed and (name in RUNS or name in TIMES or name in claimed)]
    parts: list[str] = []
    for data, some in by_data(names).items():
        columns = document.exhibits[0].columns
        parts += [f"## Rows that no table prints: {data}", *_tables(document, some, [c for c in columns if c.ours in TIMED], None)]
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
        lines.append(f"<details><summary>{name}</summary>\n\n" + "\n".join(rows) + "\n\n</details>")
    return "\n\n".join(["## Class by class", f"Test images, {block.budget}; mean ± standard deviation over runs.", *lines])


def _memory(document: Document) -> list[str]:
    drawn = [name for name in files(document) if name.startswith(f"{document.name}-memory")]
    if not drawn:
        return []
    batches = sorted({MEMORY[name]["batch"] for name in document.printed if name in MEMORY})
    return [
        "## Memory",
        f"Peak memory of a training step above what the process had loaded, batches of {_or(batches)}, the median of three. The documents' exact "
        "attention keeps all its weights for backward (`softmax(naive=true)`); ours is fused and does not, so that memory no longer tells "
        "exact attention from linear attention.",
        *(f"![Memory of exact attention, naive and fused, and of others](figures/{name})" for name in drawn),
    ]


def _figures(document: Document) -> list[str]:
    parts = ["## Figures", "Drawn by the definitions of `vix report` from the runs of the tables above, and from what was timed in turn."]
    for drawing in drawings(document):
        parts.append(f"### {drawing.title}")
        parts += [f"![{figure.title}](figures/{name})" for name, figure in drawing.charts.items()]
        parts += [f"![{drawing.exhibits[0].about}](figures/{name})" for name in drawing.pictures if (FOLDER / name).exists()]
        missing = [
            f"*{draw}* waits for the images of {recipe}"
            for name, (draw, recipe) in drawing.pictures.items()
            if not (FOLDER / name).exists()
        ]
        says = dict.fromkeys(figure.says for figure in drawing.charts.values() if figure.name != "times")
        timed = (
            "Means of calls timed in turn; the band is one standard deviation of the calls." if "times" in drawing.exhibits[0].draws else ""
        )
        parts += [" ".join(filter(None, [*says, timed]))]
        parts += [f"Not drawn yet: {'; '.join([*drawing.waits, *missing])}."] if drawing.waits or missing else []
    return parts


def _or(values: Iterable[int]) -> str:
    return " or ".join(f"{value:,}" for value in values)
