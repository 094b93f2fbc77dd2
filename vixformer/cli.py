"""The command `vix`: a word, and the file in commands/ that it runs. Only this, commands/, tables.py and terminal.py
print."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import NoReturn

from vixformer.commands import COMMANDS, GROUPS, summary
from vixformer.notes import printed_notes, want_of_memory
from vixformer.version import __version__


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
        elif args[0] in ("--version", "-V", "version"):
            print(f"vix {__version__}")
        else:
            _call(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        _refuse(str(error))
    except (MemoryError, RuntimeError) as error:
        if (sentence := want_of_memory(error)) is None:
            raise
        _refuse(sentence)
    except KeyboardInterrupt:
        print("vix: interrupted", file=sys.stderr)
        sys.exit(130)


def _refuse(sentence: str) -> NoReturn:
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else 10**6  # a file or a pipe gets one line
    print(textwrap.fill(f"vix: {sentence}", width, break_long_words=False, break_on_hyphens=False), file=sys.stderr)
    sys.exit(2)


def _call(typed: Sequence[str]) -> None:
    from vixformer.options import help_of, parse, pick_kind
    from vixformer.plugins import FLAG, load_installed, load_plugin, split_words
    from vixformer.registry import pick

    files, (word, *args) = split_words(typed)
    pick(dict.fromkeys(COMMANDS), word, "command")
    load_installed()
    for file in files:
        load_plugin(file)
    command = importlib.import_module(f"vixformer.commands.{word}")
    wants_help = "--help" in args or "-h" in args
    rest = [arg for arg in args if not wants_help or arg not in ("--help", "-h")]
    if wants_help and isinstance(command.Options, dict) and not rest:
        print(f"vix {word} {'|'.join(command.Options)}\n\n{summary(word)}\n")
        print("".join(f"  {f'vix {word} {kind}':<24}{options.__doc__}\n" for kind, options in command.Options.items()))
        print(f'"vix {word} {next(iter(command.Options))} --help" explains the options.')
        return
    kind, rest, name = pick_kind(command.Options, rest, word)
    if wants_help:
        about = summary(word) if name == word else str(kind.__doc__)
        first = rest[0] if rest and not rest[0].startswith("-") else None
        print(help_of(kind, name, about, first, shutil.get_terminal_size((80, 40)).columns), end="")
        return
    options = parse(kind, [*rest, *(word for file in files for word in (FLAG, file))], name)
    from vixformer.tables import tables_as
    from vixformer.terminal import decoding_shown

    with decoding_shown(), tables_as(options):
        command.run(options)


def _help() -> None:
    width, indent = min(shutil.get_terminal_size((120, 40)).columns, 120), " " * 19
    print("vix: vision transformers whose attention can be swapped layer by layer")
    for group, words in GROUPS.items():
        print(f"\n{group}")
        for word in words:
            first, *more = textwrap.wrap(summary(word), max(width - len(indent), 40))
            print(f"  vix {word:<12} {first}", *(indent + line for line in more), sep="\n")
    print(f"  {'vix --version':<16} Print the version.")
    print('\n"vix COMMAND --help" explains the options of a command.')


if __name__ == "__main__":
    main()
