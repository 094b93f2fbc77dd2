"""The command `vix`: a word, and the function it calls. Only this file and terminal.py print."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from vixformer.registry import pick
from vixformer.terminal import Nothing, comparison, count, markdown, megabytes, read, say, table
from vixformer.version import __version__


def models(args: Sequence[str]) -> None:
    """list the models, with their size for one image"""
    read(Nothing, args, "models")
    import torch

    from vixformer.measure.cost import most_tokens, multiply_adds, one_image, parameters
    from vixformer.models import create_model, list_models

    rows = []
    for name in list_models():
        with torch.device("meta"):  # sizes without weights
            model = create_model(name)
        size, image, found = f"{model.img_size[0]} x {model.img_size[1]}", one_image(model), parameters(model)
        rows.append((name, size, *map(count, (most_tokens(model), found.all, found.modules, multiply_adds(model, image)))))
    table(("model", "image", "tokens", "parameters", "in modules", "multiply-adds"), rows)


def attentions(args: Sequence[str]) -> None:
    """list the words of the layout language, with their options"""
    read(Nothing, args, "attentions")
    from vixformer.attention.base import Mechanism
    from vixformer.attention.kernels.base import Kernel

    table(("attention", "options and defaults", "what it is"), [_described(cls) for _, cls in sorted(Mechanism.members.items())], grid=True)
    table(("kernel=", "options and defaults", "what it is"), [_described(cls) for _, cls in sorted(Kernel.members.items())], grid=True)
    say('Layouts: "performer + softmax" alternates, "first(performer, n=2, rest=nystrom)" and "last(...)" split the depth, "*3" repeats,')
    say('"a | b" is one pattern a stage. See docs/attention.md.')


def show(args: Sequence[str]) -> None:
    """MODEL [OPTIONS]: what a model costs, layer by layer"""
    if not args or args[0].startswith("-"):
        raise ValueError('which model? write "vix show vit --attention ..."; "vix models" lists them')
    from vixformer.measure.cost import layer_costs, model_cost
    from vixformer.models import create_model, model_config

    name, *options = args
    config = model_config(name)
    config = read(type(config), options, f"show {name}", default=config)
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    model = create_model(config.owner.name, **values)
    cost = model_cost(model)
    say(f"{name}: {model.attention_expression()}" + (f"; between stages: {config.shrink}" if hasattr(config, "shrink") else ""))
    columns = ("layer", "attention", "tokens", "parameters", "multiply-adds", "of the mechanism", "kept for backward")
    table(
        columns,
        [
            (
                str(c.layer),
                c.attention,
                *map(count, (c.tokens, c.parameters, c.multiply_adds, c.core_multiply_adds)),
                megabytes(c.bytes_kept),
            )
            for c in layer_costs(model)
        ],
    )
    say(
        f"whole model, one image: {count(cost.parameters.all)} parameters ({count(cost.parameters.modules)} in modules), "
        f"{count(cost.multiply_adds)} multiply-adds, {megabytes(cost.bytes_kept)} kept for backward"
    )


def overview(args: Sequence[str]) -> None:
    """build a model of every mechanism; table of tokens, parameters, multiply-adds and milliseconds"""
    read(Nothing, args, "overview")
    from vixformer.measure.overview import every_attention
    from vixformer.measure.overview import overview as measured

    batch = 8
    say(f"ViTs for 32 x 32 images, width 128, depth 4, 4 heads; patches of 4 and of 1; times for {batch} images, inference, min of n")
    with Console(stderr=True).status("building and timing"):
        rows = measured(every_attention(), batch=batch)
    exact = {row.tokens: row.ms for row in rows if row.attention == "softmax"}
    table(
        ("attention", "tokens", "parameters", "multiply-adds", "ms", "x exact"),
        [
            (
                r.attention,
                *map(count, (r.tokens, r.parameters.all, r.multiply_adds)),
                f"{r.ms:.1f}",
                f"{r.ms / exact[r.tokens]:.2f}",
            )
            for r in rows
        ],
    )
    small = min(exact)
    slower = [r for r in rows if r.tokens == small and r.ms > exact[small]]
    say(f'"x exact" above 1 is slower than exact attention, as {len(slower)} of {len(rows) // len(exact) - 1} are at {small} tokens.')


def recipes(args: Sequence[str]) -> None:
    """[PATTERN]: list the recipes, such as 'hybrid/mnist/*'"""
    from vixformer.recipes import list_recipes, load_recipe

    pattern = args[0] if args else "*"
    names = list_recipes(pattern)
    if not names:
        raise ValueError(f'no recipe is called "{pattern}"; "vix recipes" lists them all')
    rows = []
    for name in names:
        r = load_recipe(name)
        rows.append((name, r.data.name, r.model.attention, str(r.train.epochs), str(r.train.batch_size), f"{r.train.lr:g}"))
    table(("recipe", "data", "attention", "epochs", "batch", "rate"), rows)


def train(args: Sequence[str]) -> None:
    """RECIPE [--train.epochs 3 ...] [--out DIR] | --resume RUN: train one recipe, by name or from a JSON file"""
    from vixformer.results.runs import SUMMARY, data_digest, folder_of, read_run
    from vixformer.terminal import Watch
    from vixformer.training.loop import train as run

    words = list(args)
    out, resume = _take(words, "--out") or "runs", _take(words, "--resume")
    if resume is not None:
        if words:
            raise ValueError(f"--resume goes on with a run as it was and takes no other options, such as {words[0]}")
        recipe, folder, name = read_run(resume).recipe, Path(resume), resume
    else:
        if not words or words[0].startswith("-"):
            raise ValueError('which recipe? write "vix train quick/exact"; "vix recipes" lists them')
        name, *options = words
        recipe = _recipe(name, options, "train")
        source = recipe.data.source()
        digest = data_digest(source.read("train"), source.read("test"))
        folder = folder_of(Path(out), Path(name).name if name.endswith(".json") else name, recipe, digest)
    if (folder / SUMMARY).exists():
        say(f"{folder} is finished; the same content is not run twice")
    else:
        with Watch(name, recipe, f"vix train --resume {folder}") as watch:
            run(recipe, folder, resume=True, observer=watch)
    summary = read_run(folder).summary or {}
    say(
        f"{folder}: test top-1 {summary['test_top1']:.2f} %, top-5 {summary['test_top5']:.2f} %, "
        f"epoch {summary['best_epoch']} of {summary['epochs']} chosen on validation, {summary['seconds_an_epoch']:.1f} s an epoch"
    )


def compare(args: Sequence[str]) -> None:
    """[RECIPES...] [--seeds 3] [--folds 5] [--budget 20m] [--epochs E] [--data NAME] [--out DIR]: train several alike, and a table"""
    from vixformer.recipes import list_recipes
    from vixformer.results.files import write_text
    from vixformer.terminal import Watch
    from vixformer.training.compare import compare as run

    words = list(args)
    names = ("out", "seeds", "folds", "epochs", "data", "budget")
    out, seeds, folds, epochs, data, budget = (_take(words, f"--{name}") for name in names)
    again = "--again" in words
    words = [word for word in words if word != "--again"]
    at = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    options = [*words[at:], *(["--train.epochs", epochs] if epochs else []), *(["--data.name", data] if data else [])]
    names = [name for word in words[:at] or ["quick/*"] for name in (list_recipes(word) or [word])]
    chosen = {name: _recipe(name, options, "compare") for name in names}
    folder = Path(out or "runs")
    with Watch("compare", None, f"vix compare {' '.join(args)}") as watch:
        many = None if folds is None else _whole(folds, "--folds", least=2)
        found = run(
            chosen,
            folder,
            seeds=_whole(seeds or "1", "--seeds"),
            folds=many,
            again=again,
            budget=None if budget is None else _seconds(budget),
            observer=watch.next,
        )
    columns, cells, notes = comparison(found)
    table(columns, cells)
    for note in notes:
        say(note)
    write_text(folder / "compare.md", markdown(columns, cells) + "\n" + "\n".join(notes) + "\n")
    say(f"This table is in {folder / 'compare.md'}, the runs beside it.")


def runs(args: Sequence[str]) -> None:
    """[DIR]: what is in a folder of runs, finished or not"""
    from vixformer.results.runs import list_runs

    folder = Path(args[0] if args else "runs")
    found = list_runs(folder)
    if not found:
        raise ValueError(f'{folder} has no runs: "vix train quick/exact --out {folder}" makes one')
    rows = []
    for run in found:
        s = run.summary
        state = ("", "", "", "", "") if s is None else _summarised(s)
        epochs = f"{len(run.history())} of {run.recipe.train.epochs}"
        rows.append((run.folder.name, run.recipe.data.name, "done" if s else "not finished", epochs, *state))
    table(("run", "data", "state", "epochs", "parameters", "top-1 %", "train s", "inference ms", "memory, MiB"), rows)


def _summarised(s: dict[str, Any]) -> tuple[str, ...]:
    inference = f"{s['inference_ms_mean']:.1f} ± {s['inference_ms_sd']:.1f}" if "inference_ms_mean" in s else ""
    memory = f"{s['peak_train_mb']:.0f}" if "peak_train_mb" in s else ""
    return count(s["parameters"]), f"{s['test_top1']:.2f}", f"{s['train_seconds']:.0f}", inference, memory


def _recipe(name: str, options: Sequence[str], command: str) -> Any:
    """A recipe with the flags that override parts of it."""
    from vixformer.config import Recipe, recipe_from_dict
    from vixformer.recipes import load_recipe

    recipe = load_recipe(name)
    return recipe_from_dict(read(Recipe, options, f"{command} {name}", default=recipe).to_dict(), name) if options else recipe


def data(args: Sequence[str]) -> None:
    """list | get NAME | check NAME [--root DIR]: what is known and what is here, download, verify"""
    from vixformer.data.base import DataSet, data_root
    from vixformer.terminal import download_bar

    words = list(args)
    root = data_root(_take(words, "--root"))
    word = words[0] if words else "list"
    if word not in ("list", "get", "check") or (word != "list" and len(words) < 2):
        raise ValueError('write "vix data list", "vix data get NAME" or "vix data check NAME"')
    if word == "list":
        rows = []
        for name, cls in sorted(DataSet.members.items()):
            rows.append((name, "yes" if cls(root).here() else "no", cls.about, " + ".join(count(n) for n in cls.counts.values())))
        table(("data set", "here", "what it is", "train + test"), rows)
        say(f"Files under {root}.")
    for name in words[1:]:
        source = DataSet.member(name)(root)
        if word == "get":
            with download_bar() as progress:
                from vixformer.data.download import get

                get(source, progress)
        say(_checked(source))


def _checked(source: Any) -> str:
    """What reading the whole set shows."""
    from vixformer.data.base import content_digest

    found = {}
    whole = True
    for part in ("train", "test"):
        images = source.read(part)
        found[part] = len(images)
        complete = len(images) == source.counts.get(part, len(images))
        whole &= complete
        if complete and part in source.digests and content_digest(images) != source.digests[part]:
            raise ValueError(f"{source.name}: the {part} part has the right number of images but not the right ones: get it again")
    says = "whole" if whole else f"a subset of {' + '.join(count(n) for n in source.counts.values())}"
    compared = " and every pixel and label as published" if whole and source.digests else ""
    return f"{source.name}: {count(found['train'])} + {count(found['test'])} images, {says}{compared}"


def _take(words: list[str], flag: str) -> str | None:
    """Take `flag VALUE` out of the words."""
    if flag not in words:
        return None
    at = words.index(flag)
    if at + 1 >= len(words):
        raise ValueError(f"{flag} needs a value")
    value = words[at + 1]
    del words[at : at + 2]
    return value


def _whole(text: str, flag: str, least: int = 1) -> int:
    if not text.isdigit() or int(text) < least:
        raise ValueError(f"{flag} must be a whole number of at least {least}, not {text}")
    return int(text)


def _seconds(text: str) -> float:
    """20m, 90s, 1.5h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if found is None or not float(found[1]):
        raise ValueError(f"--budget must be a time such as 90s, 20m or 1.5h, not {text}")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "compare": compare,
    "train": train,
    "runs": runs,
    "recipes": recipes,
    "data": data,
    "models": models,
    "attentions": attentions,
    "show": show,
    "overview": overview,
}


PLAIN = ("models", "attentions", "overview", "show")
"""Commands whose flags are listed by what reads them."""


def main(argv: Sequence[str] | None = None) -> None:
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        if not args or args[0] in ("-h", "--help", "help"):
            _help()
        elif args[0] == "--version":
            say(f"vix {__version__}")
        else:
            command = pick(COMMANDS, args[0], "command")
            if args[1:2] in (["--help"], ["-h"]) and args[0] not in PLAIN:
                say(f"vix {args[0]} {command.__doc__}")
                say('"vix train quick/exact --help" lists the options of a recipe, which compare takes too.')
            else:
                command(args[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        print(f"vix: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("vix: interrupted", file=sys.stderr)
        sys.exit(130)


def _help() -> None:
    say("vix: vision transformers whose attention can be swapped layer by layer\n")
    for name, command in COMMANDS.items():
        say(f"  vix {name:<12} {command.__doc__}")
    say('\n"vix COMMAND --help" lists options.')


def _described(cls: Any) -> tuple[str, str, str]:
    fields = [(f.name, getattr(cls.Config(), f.name)) for f in dataclasses.fields(cls.Config)]
    plain = {None: "none", True: "true", False: "false"}
    words = [f"{k}={v.owner.name if hasattr(v, 'owner') else plain.get(v, v) if not isinstance(v, float) else v}" for k, v in fields]
    about = (sys.modules[cls.__module__].__doc__ or "").strip().splitlines()[0]
    return cls.name, ", ".join(words), about


if __name__ == "__main__":
    main()
