"""The table of a comparison, and what to know about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from vixformer.results.evidence import MARGIN, Effect, Judged, effect, explained, judge
from vixformer.terminal import count, rounded

if TYPE_CHECKING:  # what is wrong with a command line is said before torch is there
    from vixformer.experiments.compare import Comparison, Row

ALIKE = 0.02
"""Models whose parameters differ by more are not of one size."""


def comparison(
    found: Comparison, against: str | None = None, margin: float = MARGIN
) -> tuple[list[str], list[list[str]], list[str]]:
    """Columns, rows and what to know about them, relative to the model called `against`, or else to the first one of
    exact attention alone, or else to the first. Verdicts are against `margin` points."""
    from vixformer.attention.layout import is_exact

    rows = found.rows
    named = next((r for r in rows if r.name == against), None)
    exact = named or next((r for r in rows if is_exact(r.attention)), rows[0])
    apart = {
        r.name: d for r in rows if r is not exact and (d := effect(r.repetitions(), exact.repetitions())) is not None
    }
    verdicts = dict(zip(apart, judge([(d, "different", margin) for d in apart.values()]), strict=True))
    columns = _columns(found, exact, apart, verdicts)
    notes = _measured(rows, exact)
    if apart:
        notes += _differences(rows, exact, apart, verdicts, margin)
    if found.tune is not None:
        notes += _tuning(found.tune, rows)
    notes += _conditions(found)
    return list(columns), [[cell(row) for cell in columns.values()] for row in rows], notes


def _columns(
    found: Comparison, exact: Row, apart: Mapping[str, Effect], verdicts: Mapping[str, Judged]
) -> dict[str, Callable[[Row], str]]:
    from vixformer.measure.latency import paired_ratio
    from vixformer.results.runs import spread
    from vixformer.results.timings import epochs_ratio

    def seconds(r: Row) -> float:
        return spread(r.values("train_seconds")).mean

    def times_training(r: Row) -> str:
        share = seconds(r) / seconds(exact) if seconds(exact) else 1.0
        return "1.00" if r is exact else str(epochs_ratio(r.epochs, exact.epochs, share) or f"{share:.2f}")

    def times_inference(r: Row) -> str:
        return "1.00" if r is exact else str(paired_ratio(r.rounds, exact.rounds))

    def memory(r: Row) -> float | None:
        return None if (peak := r.spread("peak_train_mb")) is None else peak.mean

    def times_memory(r: Row) -> str:
        mine, base = memory(r), memory(exact)
        return "" if mine is None or base is None else f"{mine / base:.2f}"

    columns: dict[str, Callable[[Row], str]] = {
        "model": lambda r: r.name,
        "attention": lambda r: r.attention,
        "parameters": lambda r: count(r.first["parameters"]),
        f"{_accuracy(exact)} %": lambda r: str(r.test_top1),
    }
    if apart:
        columns["difference"] = lambda r: str(apart[r.name]) if r.name in apart else ""
        columns["verdict"] = lambda r: verdicts[r.name].verdict if r.name in apart else ""
    if found.tune is not None:
        columns["rate"] = lambda r: f"{r.tuned.rate:g}" if r.tuned else ""
        columns["untuned %"] = lambda r: str(r.untuned or "")
    if found.rows[0].folds is not None:
        columns["validation %"] = lambda r: str(r.accuracy("val") or "")
    columns |= {
        "train s": lambda r: rounded(seconds(r)),
        "inference ms": lambda r: f"{r.inference.median:.1f}",
        "memory, MiB": lambda r: "" if (peak := memory(r)) is None else f"{peak:.0f}",
        "kept, MiB": lambda r: "" if (kept := r.first.get("kept_bytes")) is None else f"{kept / 2**20:.2f}",
        "x train": times_training,
        "x inference": times_inference,
        "x memory": times_memory,
    }
    if not _memory_measured(found.rows):
        del columns["memory, MiB"], columns["x memory"]
    return columns


def _accuracy(row: Row) -> str:
    return "R2" if row.target else "top-1"


def _memory_measured(rows: Sequence[Row]) -> bool:
    return any(r.values("peak_train_mb") for r in rows)


def _measured(rows: Sequence[Row], exact: Row) -> list[str]:
    """What the numbers are."""
    folds, seeds = rows[0].folds, min(r.seeds for r in rows)
    if folds is not None:
        runs = rows[0].test_top1.count
        over = f"mean ± standard deviation over {folds} folds" + (f" of {seeds} seeds" if seeds > 1 else ", one seed")
        over += "" if runs == folds * seeds else f", the {runs} of {folds * seeds} that all models have"
    elif seeds > 1:
        over = f"mean ± standard deviation over {seeds} seeds"
    else:
        over = "one seed, which decides nothing: every difference is open"
    epoch = "the epoch chosen on validation" if any(r.accuracy("val") for r in rows) else "the last epoch"
    return [
        f"Test {_accuracy(exact)} at {epoch}, {over}.",
        "Inference ms is the median time of a batch of 64 images. All models were timed in turn.",
        ("Memory is what a training step adds at its peak. " if _memory_measured(rows) else "")
        + "Kept is the memory that the backward pass needs, for one image.",
        f"Columns with x are relative to {exact.name}. Those of times have a 95 % interval; if it includes 1, the two"
        " are tied.",
    ]


def _differences(
    rows: Sequence[Row], exact: Row, apart: Mapping[str, Effect], verdicts: Mapping[str, Judged], margin: float
) -> list[str]:
    notes = [f"The difference is to {exact.name}, in points. {explained(margin, apart.values())}"]
    if unclear := [name for name, judged in verdicts.items() if judged.verdict == "open"]:
        notes.append(f'Open: {", ".join(unclear)}. "vix power" says how many seeds and minutes would decide.')
    larger = {r.name: r.first["parameters"] / exact.first["parameters"] - 1 for r in rows}
    if sizes := [f"{name} ({share:+.1%})" for name, share in larger.items() if abs(share) > ALIKE]:
        notes.append(f"Not of the same size as {exact.name}, in parameters: {', '.join(sizes)}.")
    return notes


def _conditions(found: Comparison) -> list[str]:
    """How the models were trained and timed, and what is missing."""
    from vixformer.results.groups import counted

    rows, notes = found.rows, []
    unvalidated = [r.name for r in rows if not r.accuracy("val")]
    if 0 < len(unvalidated) < len(rows):
        notes.append(
            f"Test {_accuracy(rows[0])} at the last epoch, because there is no validation: {', '.join(unvalidated)}."
        )
    if found.jobs > 1:
        notes.append(
            f"{found.jobs} models were trained at a time. They shared the cores, so train s are longer than alone."
        )
    elif beside := [r.name for r in rows if r.disturbed]:
        notes.append(
            f"Other work was running while these were trained, so their train s are not reliable: {', '.join(beside)}."
        )
    if found.timing is not None and (said := found.timing.told(r.inference for r in rows)):
        notes.append(f"Inference: {said}")
    if found.cut is not None:
        part = (
            "all of the training images"
            if found.cut.fraction == 1
            else f"{found.cut.fraction:.1%} of the training images"
        )
        less = "; less than its recipe says." if found.shortened else ", which is all that its recipe says."
        notes.append(f"The budget gave every model {counted(found.cut.epochs, 'epoch')} and {part}{less}")
        if not found.cut.measure:
            notes.append("Memory was not measured, to leave the time for training.")
    if found.not_run:
        notes.append(f"Not run: {'; '.join(found.not_run)}.")
    if found.left_out:
        notes.append(f"Not in the table, because not all models have it: {'; '.join(found.left_out)}.")
    return notes + rest_of(found)


def rest_of(found: Comparison) -> list[str]:
    """How to train what a budget left no time for."""
    from vixformer.results.groups import counted

    if found.enough is None:
        return []
    minutes = round(found.enough / 60)
    other = "" if (found.budget or 0) >= found.enough else f" with --budget {minutes}m"
    return [
        f"The budget was too small for all runs. Another {'minute' if minutes == 1 else counted(minutes, 'minute')} is"
        f" enough for the rest: run the same command again{other}, which keeps the finished runs."
    ]


def _tuning(trials: int, rows: Sequence[Row]) -> list[str]:
    done = [r.tuned for r in rows if r.tuned is not None]
    got = min(len(tuned.tried) for tuned in done)
    fewer = "" if got == trials else f" of the {trials} asked for, because the budget left no time for more"
    notes = [
        f"Rate: each model got {got} learning-rate trials{fewer}, a factor of 3 apart around its recipe's rate, with a"
        " seed and a split that no run in the table has; the best on validation was taken. Seeds vary the start, the"
        " split and the order. Untuned: the same seeds at the recipe's own rate."
    ]
    edge = [f"{r.name} ({r.tuned.rate:g})" for r in rows if r.tuned is not None and r.tuned.at_the_end]
    if edge:
        notes.append(
            f"The best rate is the lowest or highest tried, so a rate beyond may be better: {', '.join(edge)}. Try"
            f" --tune {trials + 2}."
        )
    lost = [
        f"{r.name} at {', '.join(f'{rate:g}' for rate in r.tuned.diverged)}"
        for r in rows
        if r.tuned is not None and r.tuned.diverged
    ]
    if lost:
        notes.append(f"Trials that diverged: {'; '.join(lost)}.")
    return notes
