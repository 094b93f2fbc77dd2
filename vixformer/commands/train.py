"""Train one recipe, by name or from a JSON file, or resume a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import NonNegativeInt

from vixformer.commands.flags import (
    DataOrFolder,
    RecipeName,
    asked_recipe,
    data_options,
    find_run,
    finished_run,
    picked,
    recipe_sections,
    tested,
    with_short_forms,
)
from vixformer.options import Changes, Folder, Means, as_typed, flag_of, sections, words
from vixformer.tables import say, say_next


@dataclass(frozen=True, kw_only=True)
class Options:
    recipe: RecipeName | None = words(None, extra='to train several, write "vix compare"')
    """Name of a recipe, or a file with one: JSON, TOML, or Python with a function `recipe`."""
    data: DataOrFolder | None = None
    """Data set (see "vix data list"), or a folder with one folder of images per class."""
    epochs: NonNegativeInt | None = None
    """Number of epochs; short for --train.epochs."""
    out: Folder = Path("runs")
    """Folder for the new run."""
    resume: Annotated[Path, Means("the folder of a run", "RUN")] | None = None
    """Resume this interrupted run with the options it was started with: its folder, the first letters of its name, or
    latest for the latest unfinished run, in the folder of --out."""
    changes: Changes = sections(recipe_sections)
    line: str = as_typed()


def run(options: Options) -> None:
    from vixformer.commands.watch import Watch
    from vixformer.conversion.parent import parent_of
    from vixformer.recipes import name_of
    from vixformer.results.runs import read_run
    from vixformer.training.loop import run as train
    from vixformer.training.loop import with_parent

    if options.resume is not None:
        given = ("data", options.data), ("epochs", options.epochs), *options.changes.items()
        if other := options.recipe or next((flag_of(name) for name, value in given if value is not None), ""):
            raise ValueError(
                f"--resume continues a run as it was started, and takes no recipe or options of one: leave out {other}"
            )
        try:
            resume = Path(find_run(options.resume, options.out, unfinished=True))
        except ValueError as error:
            raise ValueError(f"--resume {error}") from None
        found = read_run(resume)
        if found.summary is not None:
            say(f"{resume} is finished; the same content is not run twice")
        else:
            with Watch(str(resume), found.recipe, f"vix train --resume {resume}") as watch:
                train(found.recipe, found.folder, resume=True, observer=watch, name=found.name)
            found = read_run(resume)
    else:
        if (name := options.recipe) is None:
            raise ValueError('which recipe? write "vix train quick/exact"; "vix recipes" lists them')
        own = data_options(options.data)
        changes = with_short_forms(options.changes, {"train.epochs": options.epochs, **own})
        recipe = asked_recipe(name, changes, "train")
        if "data.root" in own:
            recipe = picked({name: recipe}, changes)[name]
        if (parent := parent_of(recipe)) is not None:
            say(
                f"This recipe starts from {parent[0]}, which is trained first for {parent[1].train.epochs} epochs,"
                f" unless it is in {options.out} already; --train.weights RUN takes one you have."
            )
        data = recipe.data.source().whole()
        say(data.split_off)
        with Watch(name, recipe, f"vix train {options.line}") as watch:
            recipe = with_parent(recipe, data, options.out, watch.of)
        found, _ = finished_run(recipe, name_of(name), options.out, data)
    say(tested(found))
    then = "runs" if found.recipe.data.target else "report"
    say_next(f"vix predict {found.folder} IMAGE", f"vix {then} {found.folder.parent}")
