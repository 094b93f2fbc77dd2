"""`vix train` and `vix compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vixformer.commands.flags import asked_recipe, finished_run, points, seconds, take, whole
from vixformer.registry import pick
from vixformer.results.evidence import MARGIN
from vixformer.terminal import comparison, markdown, say, table


def train(args: Sequence[str]) -> None:
    from vixformer.commands.watch import Watch
    from vixformer.conversion.parent import parent_of
    from vixformer.results.runs import read_run
    from vixformer.training.loop import run, with_parent

    words = list(args)
    out, resume = take(words, "--out") or "runs", take(words, "--resume")
    if resume is not None:
        if words:
            raise ValueError(f"--resume goes on with a run as it was and takes no other options, such as {words[0]}")
        found = read_run(resume)
        if found.summary is not None:
            say(f"{resume} is finished; the same content is not run twice")
        else:
            with Watch(resume, found.recipe, f"vix train --resume {resume}") as watch:
                run(found.recipe, found.folder, resume=True, observer=watch, name=found.name)
            found = read_run(resume)
    else:
        if not words or words[0].startswith("-"):
            raise ValueError('which recipe? write "vix train quick/exact"; "vix recipes" lists them')
        name, *options = words
        recipe = asked_recipe(name, options, "train", ("out", "resume"))
        if (parent := parent_of(recipe)) is not None:
            say(
                f"first {parent[0]}, which it starts from, {parent[1].train.epochs} epochs, unless it is in {out} already; "
                "--train.weights RUN takes one you have"
            )
        data = recipe.data.source().whole()
        with Watch(name, recipe, f"vix train {' '.join(args)}") as watch:
            recipe = with_parent(recipe, data, Path(out), watch.of)
        found, _ = finished_run(recipe, Path(name).name.removesuffix(".json") if name.endswith(".json") else name, Path(out), data)
    summary = found.summary or {}
    how = "(the last: there is no validation)" if summary["val_top1"] is None else "chosen on validation"
    chosen = f"epoch {summary['best_epoch']} of {summary['epochs']} {how}, {summary['seconds_an_epoch']:.1f} s an epoch"
    say(f"{found.folder}: test top-1 {summary['test_top1']:.2f} %, top-5 {summary['test_top5']:.2f} %, {chosen}")


def compare(args: Sequence[str]) -> None:
    from vixformer.commands.watch import Watch
    from vixformer.experiments.compare import compare as run
    from vixformer.recipes import list_recipes, unknown_recipe
    from vixformer.writing import write_text

    words = list(args)
    own = ("out", "seeds", "folds", "epochs", "data", "budget", "against", "jobs", "tune", "margin")
    out, seeds, folds, epochs, data, budget, against, jobs, tune, margin = (take(words, f"--{name}") for name in own)
    again = "--again" in words
    words = [word for word in words if word != "--again"]
    at = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    options = [*words[at:], *(["--train.epochs", epochs] if epochs else []), *(["--data.name", data] if data else [])]
    names = []
    for word in words[:at] or ["quick/*"]:
        found = list_recipes(word)
        if not found and "*" in word:
            raise ValueError(unknown_recipe(word))
        names += found or [word]
    chosen = {name: asked_recipe(name, options, "compare", own) for name in names}
    if against is not None:
        pick(chosen, against, "model of this comparison")
    folder, limit = Path(out or "runs"), points(margin, MARGIN)
    with Watch("compare", None, f"vix compare {' '.join(args)}") as watch:
        many = None if folds is None else whole(folds, "--folds", least=2)
        how_many, at_a_time = whole(seeds or "1", "--seeds"), whole(jobs or "1", "--jobs")
        trials, runs = None if tune is None else whole(tune, "--tune"), how_many * (many or 1)
        observer = watch.next if at_a_time == 1 else watch.side_by_side(len(chosen) * (runs if trials is None else trials + 2 * runs))
        found = run(
            chosen,
            folder,
            seeds=how_many,
            folds=many,
            again=again,
            budget=None if budget is None else seconds(budget),
            jobs=at_a_time,
            tune=trials,
            observer=observer,
            tell=watch.tell,
        )
    columns, cells, notes = comparison(found, against, limit)
    table(columns, cells)
    for note in notes:
        say(note)
    write_text(folder / "compare.md", markdown(columns, cells) + "\n" + "\n".join(notes) + "\n")
    say(f"This table is in {folder / 'compare.md'}, the runs beside it.")
