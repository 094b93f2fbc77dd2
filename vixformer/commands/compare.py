"""Train several recipes under the same conditions, and print a table with differences and verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import NonNegativeInt

from vixformer.commands.comparison import comparison
from vixformer.commands.flags import (
    Count,
    DataOrFolder,
    Folds,
    Points,
    RecipeName,
    Seconds,
    asked_recipe,
    data_options,
    picked,
    recipe_sections,
    with_short_forms,
)
from vixformer.options import Changes, Folder, as_typed, sections, words
from vixformer.registry import pick
from vixformer.results.evidence import MARGIN
from vixformer.tables import Shown, markdown, say, say_next, table

DROP = ("kept, MiB", "x memory", "memory, MiB", "inference ms", "train s", "parameters", "validation %", "untuned %",
"rate", "attention",
        "x inference", "x train")  # fmt: skip
"""Columns that a narrow terminal has no room for, the least important first."""


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    recipes: tuple[RecipeName, ...] = words(("quick/*",))
    """Names of recipes, patterns such as 'hybrid/mnist/*', or files (JSON, TOML or Python)."""
    seeds: Count = 1
    """Train each recipe with this number of random seeds."""
    folds: Folds | None = None
    """Cross-validate on this number of stratified folds: each fold is the validation part once."""
    tune: Count | None = None
    """Give each recipe this number of learning-rate trials (3, 5, ...), a factor of 3 apart, before the runs that
    count."""
    against: str | None = None
    """Recipe that the others are compared with. Left out: the first one that has only exact attention."""
    margin: Points = MARGIN
    """Difference of top-1, in points, that matters to you: verdicts are against this margin."""
    budget: Seconds | None = None
    """Time for all runs, such as 90s, 20m or 1.5h: all recipes get the same number of images and epochs, as many as
    fit."""
    jobs: Count = 1
    """Number of runs to train in parallel (they share the CPU cores); faster for small models."""
    epochs: NonNegativeInt | None = None
    """Number of epochs for every recipe; short for --train.epochs."""
    data: DataOrFolder | None = None
    """Data set for every recipe (see "vix data list"), or a folder with one folder of images per class."""
    out: Folder = Path("runs")
    """Folder for the runs and the table. Rerun the same command to resume."""
    again: bool = False
    """Train finished runs again."""
    changes: Changes = sections(recipe_sections)
    line: str = as_typed()


def run(options: Options) -> None:
    from vixformer.commands.watch import Watch
    from vixformer.experiments.compare import compare
    from vixformer.recipes import name_of
    from vixformer.writing import write_text

    own = data_options(options.data)
    changes = with_short_forms(options.changes, {"train.epochs": options.epochs, **own})
    words, chosen = _names(options.recipes), {}
    for word in words:
        if (name := name_of(word)) in chosen:
            alike = [other for other in words if name_of(other) == name]
            raise ValueError(f"two recipes are called {name}: {' and '.join(alike)}; rename one of the files")
        chosen[name] = asked_recipe(word, changes, "compare")
    against = None if options.against is None else name_of(options.against)
    if against is not None:
        pick(chosen, against, "model of this comparison")
    runs = options.seeds * (options.folds or 1)
    total = len(chosen) * (runs if options.tune is None else options.tune + 2 * runs)
    if "data.root" in own:
        chosen = picked(chosen, changes, None if options.budget is None else options.budget / total)
    with Watch("compare", None, f"vix compare {options.line}", runs=total) as watch:
        found = compare(
            chosen,
            options.out,
            seeds=options.seeds,
            folds=options.folds,
            again=options.again,
            budget=options.budget,
            jobs=options.jobs,
            tune=options.tune,
            observer=watch.next if options.jobs == 1 else watch.side_by_side(total),
            tell=watch.tell,
        )
    columns, cells, notes = comparison(found, against, options.margin)
    table(columns, cells, DROP)
    for note in notes:
        say(note)
    write_text(options.out / "compare.md", markdown(columns, cells) + "\n" + "\n".join(notes) + "\n")
    say(f"This table is in {options.out / 'compare.md'}, the runs beside it.")
    best = max(found.rows, key=lambda row: row.test_top1.mean)
    say_next(f"vix {'runs' if best.target else 'report'} {options.out}", f"vix predict {best.folders[0]} IMAGE")


def _names(asked: tuple[str, ...]) -> list[str]:
    from vixformer.recipes import list_recipes, unknown_recipe

    names = []
    for word in asked:
        found = list_recipes(word)
        if not found and "*" in word:
            raise ValueError(unknown_recipe(word))
        names += found or [word]
    return list(dict.fromkeys(names))
