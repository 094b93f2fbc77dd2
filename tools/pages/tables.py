"""Cells, rows and sentences from what is kept in docs/results: the runs, the timings, and the figures the documents
report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tools.runs import Kept, changed, kept_sets, kept_trials
from tools.timings import kept_memory, kept_timings, ratio_of
from vixformer import load_recipe
from vixformer.documents import DOCUMENTS
from vixformer.measure.machine import in_words
from vixformer.results.runs import spread
from vixformer.results.schema import AVERAGES

_SETS = kept_sets()
EVERY = {name: [run for runs in sets for run in runs] for name, sets in _SETS.items()}
"""Runs of all budgets and versions of a recipe; who compares them has to keep these apart."""
RUNS = {name: sets[0] for name, sets in _SETS.items()}
TRIALS = kept_trials()
TIMES = kept_timings()
MEMORY = kept_memory()
REPORTED = {name: row for document in DOCUMENTS.values() for name, row in document.printed.items()}
"""By recipe, in the documents' order."""
for _name in REPORTED:  # rows that a document prints twice
    _same = f"fast-attention/exp1/{_name.rpartition('/')[2]}"
    if (
        _name not in RUNS
        and _name.startswith("fast-attention/")
        and _same in RUNS
        and load_recipe(_name) == load_recipe(_same)
    ):
        RUNS[_name], EVERY[_name] = RUNS[_same], EVERY[_same]

Cell = Callable[[str], str]
"""Of a recipe's name."""
Column = tuple[str, Cell]


# --- what was found


def have(names: Iterable[str]) -> bool:
    return all(name in RUNS for name in names)


def tops(names: Iterable[str]) -> list[float]:
    """Test top-1 of every run of these recipes."""
    return [run.summary["test_top1"] for name in names for run in RUNS.get(name, [])]


# --- cells


def mean_of(runs: Sequence[Kept], key: str, digits: int = 2) -> str:
    values = [value for run in runs if (value := run.summary.get(key)) is not None]
    if not values:
        return ""
    found = spread(values)
    return f"{found.mean:,.{digits}f}" + ("" if not found.sd else f" ± {found.sd:.{digits}f}")


def ours(key: str, digits: int = 2) -> Cell:
    return lambda name: mean_of(RUNS.get(name, []), key, digits)


def count(name: str) -> str:
    return str(len(RUNS[name])) if name in RUNS else ""


def ratio(what: str, base: str) -> Cell:
    """Of a time here to that of the exact model."""

    def cell(name: str) -> str:
        found = ratio_of(TIMES, name, f"{name.rpartition('/')[0]}/{base}", what)
        return "" if found is None else str(found)

    return cell


# --- text


def table(names: Sequence[str], columns: Sequence[Column]) -> str:
    """Columns that have something in some row."""
    cells = {title: [cell(name) for name in names] for title, cell in columns}
    shown = {title: found for title, found in cells.items() if any(found)}
    lines = [["recipe", *shown], ["---", *["--:"] * len(shown)]]
    lines += [[f"`{name}`", *(found[i] for found in shown.values())] for i, name in enumerate(names)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def settings(found: Mapping[str, Sequence[Kept]]) -> str:
    """What was cut, where, and how often, from the runs themselves."""
    runs = [run for some in found.values() for run in some]
    if not runs:
        return "None of these has been run here yet."
    machines = sorted({in_words(run.summary["machine"]) for run in runs})
    epochs = {run.recipe["train"]["epochs"] for run in runs}
    images = {run.summary["train_images"] for run in runs}
    classes = {len([name for name in run.summary["per_class"] if name not in AVERAGES]) for run in runs}
    batches = {run.recipe["train"]["batch_size"] for run in runs}
    precision = {run.recipe["train"]["precision"] for run in runs}
    seeds = {len(some) for some in found.values()}
    tested = {(run.summary["test_images"], run.recipe["data"].get("test_fraction", 1.0)) for run in runs}
    parts = [f"{n:,} images ({100 * share:.1f} % of the test set)" for n, share in sorted(tested)]
    facts = [
        (
            f"Here: {either(epochs)} epoch{'' if epochs == {1} else 's'} on {either(images)} training images of"
            f" {either(classes)} classes"
        ),
        f"batches of {either(batches)}",
        *([f"tested on {' or '.join(parts)}"] if any(share != 1 for _, share in tested) else []),
        " or ".join(sorted(precision)),
        "1 seed" if seeds == {1} else f"{either(seeds)} seeds (mean ± standard deviation)",
        f"{' or '.join(machines)}. Test accuracy is that of the epoch chosen on validation.",
    ]
    return ", ".join(facts) + _changes(found)


TOLD = {
    "train.epochs",
    "train.batch_size",
    "train.precision",
    "train.track_test",
    "train.measure",
    "data.fraction",
    "data.test_fraction",
}
"""What the first sentence of a table says."""


def _changes(found: Mapping[str, Sequence[Kept]]) -> str:
    """What else was not as the recipes say, and in which rows where it is not in all."""
    where: dict[str, dict[str, None]] = {}
    for name, runs in found.items():
        for run in runs:
            for key, (was, now) in changed(run.recipe, name).items():
                if key not in TOLD:
                    where.setdefault(f"`{key}` {_word(was)} instead of {_word(now)}", {})[name.rpartition("/")[2]] = (
                        None
                    )
    some = {
        change: "" if len(names) == len(found) else f" (in {', '.join(f'`{n}`' for n in names)})"
        for change, names in where.items()
    }
    return (
        f" Not as the recipes are today: {', '.join(change + names for change, names in some.items())}." if some else ""
    )


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def either(values: Iterable[int]) -> str:
    return " or ".join(f"{v:,}" for v in sorted(values))


def bullet(question: str, answer: str) -> str:
    return f"* {question} {answer}"
