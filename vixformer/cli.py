"""The command `vix`: a word, and the function it calls. Only commands/ and terminal.py print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from vixformer.commands.advise import advise
from vixformer.commands.bench import bench
from vixformer.commands.convert import convert
from vixformer.commands.data import data
from vixformer.commands.export import export
from vixformer.commands.look import attentions, models, overview, recipes, runs, show
from vixformer.commands.predict import predict
from vixformer.commands.report import report
from vixformer.commands.search import search_command
from vixformer.commands.serve import serve
from vixformer.commands.train import compare, train
from vixformer.registry import pick
from vixformer.terminal import say
from vixformer.version import __version__

COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "compare": compare,
    "train": train,
    "search": search_command,
    "convert": convert,
    "bench": bench,
    "advise": advise,
    "predict": predict,
    "export": export,
    "report": report,
    "serve": serve,
    "runs": runs,
    "recipes": recipes,
    "data": data,
    "models": models,
    "attentions": attentions,
    "show": show,
    "overview": overview,
}


LISTED = ("models", "attentions", "overview", "show", "convert")
"""Commands that list their flags themselves."""


def main(argv: Sequence[str] | None = None) -> None:
    args = list(sys.argv[1:] if argv is None else argv)
    if os.environ.get("RANK", "0") != "0":  # of several processes one speaks
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        if not args or args[0] in ("-h", "--help", "help"):
            _help()
        elif args[0] == "--version":
            say(f"vix {__version__}")
        else:
            command = pick(COMMANDS, args[0], "command")
            if args[1:2] in (["--help"], ["-h"]) and args[0] not in LISTED:
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


if __name__ == "__main__":
    main()
