"""Cells, rows and sentences from what is kept in docs/results: the runs, the timings, and the figures the documents report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tools.runs import changed, kept_runs, kept_timings
from vixformer import load_recipe
from vixformer.documents import DOCUMENTS
from vixformer.measure.machine import in_words
from vixformer.results.runs import spread
from vixformer.results.statistics import Claim, Difference, Says, a_seed, difference

AVERAGES = ("accuracy", "macro avg", "weighted avg")

RUNS = kept_runs()
TIMES = kept_timings()
REPORTED = {name: row for document in DOCUMENTS.values() for name, row in document.printed.items()}
"""By recipe, in the documents' order."""
for _name in REPORTED:  # rows that a document prints twice
    _same = f"fast-attention/exp1/{_name.rpartition('/')[2]}"
    if _name not in RUNS and _name.startswith("fast-attention/") and _same in RUNS and load_recipe(_name) == load_recipe(_same):
        RUNS[_name] = RUNS[_same]

Cell = Callable[[str, dict[str, str]], str]
"""Of a recipe's name and its reported row."""
Column = tuple[str, Cell]


# --- what was found


def reported(start: str) -> list[str]:
    """Recipes a document has figures for, in its order."""
    return [name for name in REPORTED if name.startswith(start)]


def have(names: Iterable[str]) -> bool:
    return all(name in RUNS for name in names)


def tops(names: Iterable[str]) -> list[float]:
    """Test top-1 of every run of these recipes."""
    return [run.summary["test_top1"] for name in names for run in RUNS.get(name, [])]


def claim(text: str, better: Iterable[str], worse: Iterable[str], says: Says = "above") -> list[Claim]:
    """None where one side has not been run."""
    better, worse = list(better), list(worse)
    return [Claim(text, apart(better, worse), says)] if tops(better) and tops(worse) else []


def apart(better: Sequence[str], worse: Sequence[str]) -> Difference:
    """Of the test top-1 of two sets of recipes, a seed of each being one observation."""
    images = min(run.summary["test_images"] for name in (*better, *worse) for run in RUNS.get(name, []))
    return difference(a_seed(_seeded(better)), a_seed(_seeded(worse)), images)


def _seeded(names: Iterable[str]) -> Iterable[tuple[int, float]]:
    return ((run.summary["seed"], run.summary["test_top1"]) for name in names for run in RUNS.get(name, []))


def slower(name: str, base: str, key: str = "step_ms") -> float:
    """How many times as long one recipe takes as another."""
    return TIMES[name][key]["median"] / TIMES[base][key]["median"]


# --- cells


def said(key: str) -> Cell:
    return lambda _, row: row.get(key, "")


def said_ratio(key: str, base: str) -> Cell:
    """Of a reported time to that of the exact model."""

    def cell(name: str, row: dict[str, str]) -> str:
        exact = REPORTED.get(_sibling(name, base), {}).get(key)
        return f"{float(row[key]) / float(exact):.2f}" if exact and row.get(key) else ""

    return cell


def ours(key: str, digits: int = 2) -> Cell:
    def cell(name: str, _: dict[str, str]) -> str:
        values = [run.summary[key] for run in RUNS.get(name, []) if run.summary.get(key) is not None]
        if not values:
            return "not run" if key in ("test_top1", "test_top5") else ""
        s = spread(values)
        return f"{s.mean:,.{digits}f}" + ("" if not s.sd else f" ± {s.sd:.{digits}f}")

    return cell


def kept_to(base: str) -> Cell:
    """Bytes that a forward pass keeps for backward, in per cent of those of the exact model."""

    def cell(name: str, _: dict[str, str]) -> str:
        mine, theirs = RUNS.get(name), RUNS.get(_sibling(name, base))
        return f"{100 * mine[0].summary['kept_bytes'] / theirs[0].summary['kept_bytes']:.0f}" if mine and theirs else ""

    return cell


def best_of(name: str, _: dict[str, str]) -> str:
    """As that work reports it; it grows with the number of runs."""
    return f"{max(tops([name])):.2f}" if name in RUNS else ""


def count(name: str, _: dict[str, str]) -> str:
    return str(len(RUNS[name])) if name in RUNS else ""


def timed(key: str) -> Cell:
    def cell(name: str, _: dict[str, str]) -> str:
        found = TIMES.get(name)
        if found is None:
            return ""
        value = found[key]
        return f"{value['median']:.1f}" if isinstance(value, dict) else f"{value:.0f}"

    return cell


def ratio(key: str, base: str) -> Cell:
    """Of a time here to that of the exact model."""

    def cell(name: str, _: dict[str, str]) -> str:
        exact = _sibling(name, base)
        return f"{slower(name, exact, key):.2f}" if name in TIMES and exact in TIMES else ""

    return cell


def _sibling(name: str, base: str) -> str:
    return f"{name.rpartition('/')[0]}/{base}"


# --- text


def table(names: Sequence[str], columns: Sequence[Column]) -> str:
    lines = ["| recipe | " + " | ".join(title for title, _ in columns) + " |", "|---" + "|--:" * len(columns) + "|"]
    for name in names:
        row = REPORTED.get(name, {})
        lines.append(f"| `{name}` | " + " | ".join(cell(name, row) for _, cell in columns) + " |")
    return "\n".join(lines)


def settings(names: Sequence[str]) -> str:
    """What was cut, where, and how often, from the runs themselves."""
    runs = [run for name in names for run in RUNS.get(name, [])]
    if not runs:
        return "None of these has been run here yet."
    machines = sorted({in_words(run.summary["machine"]) for run in runs})
    epochs = {run.recipe["train"]["epochs"] for run in runs}
    images = {run.summary["train_images"] for run in runs}
    classes = {len([name for name in run.summary["per_class"] if name not in AVERAGES]) for run in runs}
    batches = {run.recipe["train"]["batch_size"] for run in runs}
    precision = {run.recipe["train"]["precision"] for run in runs}
    seeds = {len(RUNS[name]) for name in names if name in RUNS}
    tested = {(run.summary["test_images"], run.recipe["data"].get("test_fraction", 1.0)) for run in runs}
    parts = [f"{n:,} images ({100 * share:.1f} % of the test set)" for n, share in sorted(tested)]
    facts = [
        f"Here: {_or(epochs)} epoch{'' if epochs == {1} else 's'} on {_or(images)} training images of {_or(classes)} classes",
        f"batches of {_or(batches)}",
        *([f"tested on {' or '.join(parts)}"] if any(share != 1 for _, share in tested) else []),
        " or ".join(sorted(precision)),
        "1 seed" if seeds == {1} else f"{_or(seeds)} seeds (mean ± standard deviation)",
        f"{' or '.join(machines)}. Test accuracy is that of the epoch chosen on validation; the largest over epochs was not tracked.",
    ]
    return ", ".join(facts) + _changes(names)


def _changes(names: Sequence[str]) -> str:
    """What else was not as the recipes say, from the recipes that were run."""
    found: dict[str, None] = {}
    for name in (name for name in names if name in RUNS):
        for run in RUNS[name]:
            for field, (ran, said) in changed(run.recipe, name).items():
                found[f"`{field}` {_word(ran)} instead of {_word(said)}"] = None
    return f" Also changed: {', '.join(found)}." if found else ""


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def _or(values: Iterable[int]) -> str:
    return " or ".join(f"{v:,}" for v in sorted(values))


def bullet(question: str, answer: str) -> str:
    return f"* {question} {answer}"
