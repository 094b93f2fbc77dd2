"""The table of `make demo` in README.md, with nothing else running: `python -m benchmarks.demo --write README.md`, two
minutes."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.page import alone, put
from vixformer import list_recipes, load_recipe
from vixformer.commands.comparison import comparison
from vixformer.experiments.compare import compare
from vixformer.options import first_paragraph
from vixformer.tables import markdown

JOBS = 2
"""As `make demo` has it."""
COLUMNS = ("model", "attention", "top-1 %", "inference ms", "x inference")
"""Those that fit a page."""


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--recipes", default="quick/*")
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    options = parser.parse_args()
    recipes = {name: load_recipe(name) for name in list_recipes(options.recipes)}
    with alone(publishes=options.write is not None), tempfile.TemporaryDirectory() as runs:
        found = compare(recipes, Path(runs), jobs=JOBS, tell=lambda text: print(text, file=sys.stderr))
        disturbed = [row.name for row in found.rows if row.disturbed]
        columns, cells, notes = comparison(found)
        chosen = [columns.index(column) for column in COLUMNS]
        table = markdown(COLUMNS, [[row[i].removeprefix("quick/") for i in chosen] for row in cells])
        print(table, *notes, sep="\n")
    if options.write and disturbed:
        print(f"other work was running while {', '.join(disturbed)} trained: nothing was published", file=sys.stderr)
        raise SystemExit(2)
    if options.write:
        put(options.write, "demo", table.rstrip())


if __name__ == "__main__":
    main()
