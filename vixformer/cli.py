"""The command `vix`: a word, and the function it calls. Only this file prints."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from vixformer.registry import checked, pick
from vixformer.version import __version__


def models(args: Sequence[str]) -> None:
    """list the models, with their size for one image"""
    _read(_Nothing, args, "models")
    from vixformer.measure.cost import model_cost
    from vixformer.models import create_model, list_models

    rows = []
    for name in list_models():
        model = create_model(name)
        cost = model_cost(model)
        size = f"{model.img_size[0]} x {model.img_size[1]}"
        rows.append((name, size, *map(_count, (cost.tokens, cost.parameters.all, cost.parameters.modules, cost.multiply_adds))))
    _table(("model", "image", "tokens", "parameters", "in modules", "multiply-adds"), rows)


def attentions(args: Sequence[str]) -> None:
    """list the words of the layout language, with their options"""
    _read(_Nothing, args, "attentions")
    from vixformer.attention.base import Mechanism
    from vixformer.attention.kernels.base import Kernel

    _table(
        ("attention", "options and defaults", "what it is"), [_described(cls) for _, cls in sorted(Mechanism.members.items())], grid=True
    )
    _table(("kernel=", "options and defaults", "what it is"), [_described(cls) for _, cls in sorted(Kernel.members.items())], grid=True)
    _print(
        'Layouts: "performer + softmax" alternates, "first(performer, n=2, rest=nystrom)" and "last(...)" split the depth, "*3" repeats,'
    )
    _print('"a | b" is one pattern a stage. See docs/attention.md.')


def show(args: Sequence[str]) -> None:
    """MODEL [OPTIONS]: what a model costs, layer by layer"""
    if not args or args[0].startswith("-"):
        raise ValueError('which model? write "vix show vit --attention ..."; "vix models" lists them')
    from vixformer.measure.cost import layer_costs, model_cost
    from vixformer.models import create_model, model_config

    name, *options = args
    config = model_config(name)
    config = _read(type(config), options, f"show {name}", default=config)
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    model = create_model(config.owner.name, **values)
    cost = model_cost(model)
    _print(f"{name}: {model.attention_expression()}")
    columns = ("layer", "attention", "tokens", "parameters", "multiply-adds", "of the mechanism", "kept for backward")
    _table(
        columns,
        [
            (
                str(c.layer),
                c.attention,
                *map(_count, (c.tokens, c.parameters, c.multiply_adds, c.core_multiply_adds)),
                _bytes(c.bytes_kept),
            )
            for c in layer_costs(model)
        ],
    )
    _print(
        f"whole model, one image: {_count(cost.parameters.all)} parameters ({_count(cost.parameters.modules)} in modules), "
        f"{_count(cost.multiply_adds)} multiply-adds, {_bytes(cost.bytes_kept)} kept for backward"
    )


def demo(args: Sequence[str]) -> None:
    """build a model of every mechanism; table of tokens, parameters, multiply-adds and milliseconds"""
    _read(_Nothing, args, "demo")
    from vixformer.measure.overview import every_attention, overview

    batch = 8
    _print(f"ViTs for 32 x 32 images, width 128, depth 4, 4 heads; patches of 4 and of 1; times for {batch} images, inference, min of n")
    with Console(stderr=True).status("building and timing"):
        rows = overview(every_attention(), batch=batch)
    exact = {row.tokens: row.ms for row in rows if row.attention == "softmax"}
    _table(
        ("attention", "tokens", "parameters", "multiply-adds", "ms", "x exact"),
        [
            (
                r.attention,
                *map(_count, (r.tokens, r.parameters.all, r.multiply_adds)),
                f"{r.ms:.1f}",
                f"{r.ms / exact[r.tokens]:.2f}",
            )
            for r in rows
        ],
    )
    small = min(exact)
    slower = [r for r in rows if r.tokens == small and r.ms > exact[small]]
    _print(f'"x exact" above 1 is slower than exact attention, as {len(slower)} of {len(rows) // len(exact) - 1} are at {small} tokens.')


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {"models": models, "attentions": attentions, "show": show, "demo": demo}


def main(argv: Sequence[str] | None = None) -> None:
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        if not args or args[0] in ("-h", "--help", "help"):
            _help()
        elif args[0] == "--version":
            _print(f"vix {__version__}")
        else:
            pick(COMMANDS, args[0], "command")(args[1:])
        sys.stdout.flush()
    except ValueError as error:
        print(f"vix: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("vix: interrupted", file=sys.stderr)
        sys.exit(130)


def _help() -> None:
    _print("vix: vision transformers whose attention can be swapped layer by layer\n")
    for name, command in COMMANDS.items():
        _print(f"  vix {name:<12} {command.__doc__}")
    _print('\n"vix COMMAND --help" lists options.')


@dataclasses.dataclass(frozen=True)
class _Nothing:
    pass


def _read(config: type[Any], args: Sequence[str], command: str, default: Any = None) -> Any:
    """Flags made from a dataclass; whatever is wrong with them becomes one sentence."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            values = tyro.cli(config, args=list(args), prog=f"vix {command}", default=default)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise ValueError(f'{_sentence(complaint.getvalue())}; "vix {command} --help" lists the options') from None
    return checked(config, {field.name: getattr(values, field.name) for field in dataclasses.fields(config)}, command)


def _sentence(complaint: str) -> str:
    """What tyro says in its box, between the first two rules, and the option it suggests."""
    lines = [line.strip("│| ") for line in complaint.splitlines()]
    rules = [i for i, line in enumerate(lines) if re.search("[─-]{5,}", line)]
    first = " ".join(" ".join(lines[rules[0] + 1 : rules[1]]).split())
    first = re.sub(r"Error parsing (Config: )?", "", first)
    if union := re.match(r"(--\S+): no type matching (.*) could be instantiated from \[(.*?)\]\.", first):
        flag, forms, given = union.groups()
        return f"{flag} must be {_in_words(forms)}, not {given.replace(chr(39), '').replace(',', '')}"
    first = re.sub(r": invalid literal for int\(\) with base 10: (.*)", r" must be a whole number, not \1", first)
    first = re.sub(r": could not convert string to float: (.*)", r" must be a number, not \1", first)
    near = re.search(r"Perhaps you meant:\s+(--[\w-]+)", " ".join(lines))
    return first[:1].lower() + first[1:] + (f"; did you mean {near[1]}?" if near else "")


def _in_words(forms: str) -> str:
    """tyro's {None}|INT|{INT INT}, for people."""
    words = {"INT": "a whole number", "FLOAT": "a number", "{None}": "None", "{INT INT}": "two whole numbers", "STR": "a word"}
    return " or ".join(words.get(form, form) for form in forms.split("|"))


def _described(cls: Any) -> tuple[str, str, str]:
    fields = [(f.name, getattr(cls.Config(), f.name)) for f in dataclasses.fields(cls.Config)]
    plain = {None: "none", True: "true", False: "false"}
    words = [f"{k}={v.owner.name if hasattr(v, 'owner') else plain.get(v, v) if not isinstance(v, float) else v}" for k, v in fields]
    about = (sys.modules[cls.__module__].__doc__ or "").strip().splitlines()[0]
    return cls.name, ", ".join(words), about


def _count(n: int) -> str:
    return f"{n:,}"


def _bytes(n: int) -> str:
    return f"{n / 2**20:.2f} MiB"


def _console() -> Console:
    # A pipe has no width; a table cut to 80 columns would lose what it was asked for.
    return Console(width=shutil.get_terminal_size((160, 40)).columns if sys.stdout.isatty() else 160, highlight=False)


def _print(text: str) -> None:
    if text:
        _console().print(text, markup=False, soft_wrap=True)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], grid: bool = False) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_lines=grid)
    numbers = {"tokens", "parameters", "in modules", "multiply-adds", "of the mechanism", "kept for backward", "ms", "x exact", "layer"}
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    _console().print(table)


if __name__ == "__main__":
    main()
