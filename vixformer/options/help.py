"""The page of `--help`."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING

from vixformer.options.fields import PLUGIN, Option, loose_field, options_of
from vixformer.options.hints import names_of

WIDEST, FLAG_COLUMN, LISTED = 110, 26, 24


def usage(kind: type, command: str) -> str:
    own = options_of(kind)
    places = [option for option in own if "words" in option.metadata]
    required = [f"{option.flag} {option.value}" for option in own if option.default is MISSING and option not in places]
    parts = [option.value if option.default is MISSING else f"[{option.value}]" for option in places]
    more = len(own) > len(places) + len(required) or loose_field(kind) is not None
    return " ".join(["vix", command, *parts, *required, *(["[OPTIONS]"] if more else [])])


def help_of(kind: type, command: str, about: str, first: str | None = None, width: int = 80) -> str:
    """The page of `--help`. `first` is the first word after the command, whose sections are shown."""
    width = min(width, WIDEST)
    found = options_of(kind)
    apart = loose_field(kind)
    lines = [usage(kind, command), "", *textwrap.wrap(about, width)]
    if apart is not None:
        for section, configs in apart.metadata["sections"](first).items():
            title = f"Options of {first or 'the recipe'}" + (f": {section}" if section else "")
            found += options_of(configs[0], section, title)
    for group, members in itertools.groupby(
        sorted(found, key=_rank(found)), key=lambda o: "Arguments" if "words" in o.metadata else o.group
    ):
        lines += ["", group, *itertools.chain.from_iterable(_explained(option, width) for option in members)]
    lines += ["", "Every command", *_explained(PLUGIN, width)]
    return "\n".join(lines) + "\n"


def _rank(found: Sequence[Option]) -> Callable[[Option], int]:
    """The command's own options come first, then those that it shares."""
    groups = list(dict.fromkeys(["Arguments", "Options", *(option.group for option in found)]))
    return lambda option: groups.index(option.group)


def _explained(option: Option, width: int) -> Iterator[str]:
    words = "words" in option.metadata
    flag = (
        option.value
        if words
        else " ".join(part for part in (option.metadata.get("short", ""), option.flag, option.value) if part)
    )
    choices = names_of(option.hint)
    listed = (
        f"One of: {', '.join(choices)}."
        if 0 < len(choices) <= LISTED and not set(choices) & set(re.split("[|,]", flag))
        else ""
    )
    text = " ".join(part for part in (option.about, listed, _default(option)) if part)
    first, *more = textwrap.wrap(text, width - FLAG_COLUMN - 2, break_on_hyphens=False) or [""]
    flag = f"  {flag}"
    if len(flag) > FLAG_COLUMN:
        yield flag
        flag = ""
    yield f"{flag:<{FLAG_COLUMN}}  {first}".rstrip()
    yield from (" " * (FLAG_COLUMN + 2) + line for line in more)


def _default(option: Option) -> str:
    value = option.default
    if value is MISSING:
        return "" if "words" in option.metadata else "(required)"
    if value is None or value is False or value == "" or value == ():
        return ""
    if value is True:
        section, dot, last = option.name.replace("_", "-").rpartition(".")
        return f"(default: on; --{section}{dot}no-{last} turns it off)"
    if isinstance(value, tuple):
        return f"(default: {(',' if ',' in option.value else ' ').join(map(str, value))})"
    return f"(default: {value:g})" if isinstance(value, float) else f"(default: {value})"
