"""The command `vix`: a word, and the function it calls. Only this, commands/ and terminal.py print."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from vixformer.notes import printed_notes, want_of_memory
from vixformer.registry import pick
from vixformer.version import __version__

COMMANDS: dict[str, tuple[str, str, str]] = {
    "compare": (
        "train.compare",
        "[RECIPES...] [--seeds 3] [--folds 5] [--tune 3] [--against NAME] [--margin 0.5] [--budget 20m] [--jobs 2] [--epochs E] "
        "[--data NAME] [--out DIR]",
        "train several alike, and a table",
    ),
    "train": ("train.train", "RECIPE [--train.epochs 3 ...] [--out DIR] | --resume RUN", "train one recipe, by name or from a JSON file"),
    "reproduce": (
        "reproduce.reproduce",
        "[DOCUMENT] [--table 2 | --figure 5] [--budget 2h] [--seeds 3] [--jobs 2] [--out DIR] | --list",
        "reproduce a table or figure of a document, beside its printed numbers",
    ),
    "search": (
        "search.search_command",
        "RECIPE --space SPACE --trials N [--sampler tpe|grid|random] [--pruner median|hyperband|none] [--metric val_top1] "
        "[--minimize inference_ms] [--folds 5] [--epochs E] [--seed 0] [--study NAME] [--storage URL] [--heartbeat 30] [--out DIR]",
        "try settings of a recipe, on as many machines as there are",
    ),
    "convert": (
        "convert.convert",
        "RUN --attention EXPR [--distill 200] [--finetune 1] [--choose K] [--data NAME] [--out DIR] [--margin 0.5]",
        "other attention for a trained model",
    ),
    "bench": (
        "bench.bench",
        "attention | model | crossover [EXPRESSIONS...] [--train ...] [--json FILE] [--chart FILE]",
        "time, memory and where lines cross",
    ),
    "advise": (
        "advise.advise",
        "--image 224 --patch 16 [--batch 8 --dim 192 --depth 12 --train --budget-ms 50 --memory 500] [--json]",
        "which attention, and why",
    ),
    "predict": (
        "predict.predict",
        "MODEL IMAGES... | FOLDER | - [--top 5] [--json] [--attention-map DIR]",
        "what a trained model takes pictures for; - reads one from standard input",
    ),
    "export": (
        "export.export",
        "MODEL [--format onnx,torch,aot,int8] [--dynamic-batch] [--batch 1] [--data NAME] [--out DIR]",
        "a trained model for other programs, checked against torch on real images",
    ),
    "report": (
        "report.report",
        "RUNS... [-o report.html] [--figures DIR --format svg,png,pdf] [--tables md,latex,csv] [--only FIGURE] [--maps IMAGES] [--title T] "
        "[--margin 0.5]",
        "a page, figures and tables from runs or their records, and from what `vix bench --json` wrote",
    ),
    "serve": (
        "serve.serve",
        "RUNS... [--port 8000 --host 127.0.0.1 --memory-mb 1024 --token TOKEN --names A,B --margin 0.5]",
        "a live page of runs, and their models to try",
    ),
    "power": (
        "power.power",
        "RUNS... [--effect 1.0] [--margin 0.5] [--against NAME]",
        "how many seeds and minutes it takes to show a difference, or to rule it out",
    ),
    "runs": ("look.runs", "[DIR | FILE]", "list the runs in a folder, finished or not, or in a file of records"),
    "recipes": ("look.recipes", "[PATTERN...]", "list the recipes, such as 'hybrid/mnist/*'"),
    "data": ("data.data", "list | get NAME | check NAME [--root DIR]", "what is known and what is here, download, verify"),
    "models": ("look.models", "", "list the models, with their size for one image"),
    "attentions": ("look.attentions", "", "list the words of the layout language, with their options"),
    "show": ("look.show", "MODEL|RECIPE [OPTIONS]", "what a model costs, layer by layer"),
    "doctor": ("doctor.doctor", "", "torch, threads, instruction sets, and whether compiled kernels are on, or why not and what to do"),
    "overview": ("look.overview", "", "build a model of every mechanism; table of tokens, parameters, multiply-adds and milliseconds"),
}
"""The function in commands/ that each one calls, what it takes, and what it does. It is imported when it is called, so that help comes at
once."""
LISTED = (
    "models",
    "attentions",
    "overview",
    "show",
    "convert",
    "advise",
    "bench",
    "predict",
    "export",
    "report",
    "power",
    "reproduce",
    "serve",
)
"""Commands that list their flags themselves."""
FLAGS = {
    "compare": {
        "--seeds N": "train each with the seeds 0 to N - 1",
        "--folds K": "train each on K stratified folds, every one of them validating once",
        "--tune N": "give each model N learning-rate trials, a factor of 3 apart, then fresh seeds, which vary the split too (3, 5, ...)",
        "--margin POINTS": "difference of top-1 that matters: verdicts are against this margin (0.5)",
        "--against NAME": "which of them the others are compared with (the first that is all exact attention)",
        "--budget TIME": "as many images and epochs as fit into 90s, 20m or 1.5h, the same for all",
        "--jobs N": "so many trainings at a time, which share the cores: faster for small models (1)",
        "--epochs E": "the same for all",
        "--data NAME": 'other images, of "vix data list"',
        "--out DIR": "where runs go and are found again (runs)",
    },
    "train": {"--out DIR": "where the run goes (runs)", "--resume RUN": "go on with a run that was interrupted"},
    "search": {
        "--space SPACE": 'what may vary: a name, a JSON file, or "train.lr=1e-4..1e-2:log; train.batch_size=64|128"',
        "--trials N": "how many in all, of all workers together; a grid needs none",
        "--sampler WORD": "tpe (the default), grid or random",
        "--pruner WORD": "median (the default), hyperband or none: give up trials that are behind",
        "--metric NAME": "of the summary, what to maximise (val_top1)",
        "--minimize NAME": "a second goal, such as inference_ms: what is best for either is kept",
        "--folds K": "every trial on K folds",
        "--epochs E": "of a trial",
        "--seed S": "of the sampler",
        "--study NAME": "what workers share goes by this name",
        "--storage URL": "where they share it: sqlite:///FILE, postgresql://...",
        "--heartbeat SECONDS": "how often a worker says that it lives",
        "--out DIR": "where runs go (runs)",
    },
}
"""Those that are not made from a dataclass."""


def main(argv: Sequence[str] | None = None) -> None:
    args = list(sys.argv[1:] if argv is None else argv)
    if os.environ.get("RANK", "0") != "0":  # of several processes one speaks
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    with printed_notes():
        _run(args)


def _run(args: list[str]) -> None:
    try:
        if not args or args[0] in ("-h", "--help", "help"):
            _help()
        elif args[0] == "--version":
            print(f"vix {__version__}")
        else:
            where, takes, what = pick(COMMANDS, args[0], "command")
            if args[1:2] in (["--help"], ["-h"]):
                print(f"vix {args[0]} {takes}\n{what}")
            if args[1:2] in (["--help"], ["-h"]) and args[0] not in LISTED:
                if args[0] in ("train", "compare", "search"):
                    print("".join(f"  {flag:<20} {text}\n" for flag, text in FLAGS[args[0]].items()), end="")
                    print('"vix train quick/exact --help" lists the options of a recipe, which compare and search take too.')
            else:
                module, _, function = where.partition(".")
                command = getattr(importlib.import_module(f"vixformer.commands.{module}"), function)
                with importlib.import_module("vixformer.terminal").decoding_shown():
                    command(args[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        print(f"vix: {error}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if (sentence := want_of_memory(error)) is None:
            raise
        print(f"vix: {sentence}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("vix: interrupted", file=sys.stderr)
        sys.exit(130)


def _help() -> None:
    print("vix: vision transformers whose attention can be swapped layer by layer\n")
    for name, (_, _, what) in COMMANDS.items():
        print(f"  vix {name:<12} {what}")
    print('\n"vix COMMAND --help" lists options.')


if __name__ == "__main__":
    main()
