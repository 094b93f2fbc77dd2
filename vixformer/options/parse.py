"""From the words of a command line to an options dataclass."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import TypeVar

from pydantic import ValidationError

from vixformer.jsonfile import Values
from vixformer.options.fields import Option, find_options, loose_field, options_of
from vixformer.options.hints import Means, described, names_of, parts_of, takes
from vixformer.plugins import split_words
from vixformer.registry import LARGEST, adapter, fields_of, unknown

T = TypeVar("T")


def parse(kind: type[T], args: Sequence[str], command: str) -> T:
    """The options in these words. Flags and words come in any order."""
    own = options_of(kind)
    known = {option.flag: option for option in own if "words" not in option.metadata}
    shorts = {option.metadata["short"]: flag for flag, option in known.items() if "short" in option.metadata}
    apart = loose_field(kind)
    loose: list[str] = []
    given: dict[str, list[str]] = {}
    _, rest = split_words(args)  # plugins are loaded before: their options are known here
    while rest:
        arg = rest.pop(0)
        if not arg.startswith("-") or arg == "-":
            loose.append(arg)
            continue
        typed, equals, value = arg.partition("=")
        flag = shorts.get(typed, typed.replace("_", "-"))
        if apart is not None and flag not in known and _positive(flag) not in known:
            known = {**find_options(apart.metadata["sections"](None)), **known}
        negated = flag not in known and _positive(flag) in known and takes(known[_positive(flag)].hint, bool)
        option = known.get(_positive(flag) if negated else flag)
        if option is None:
            raise ValueError(unknown_option(typed, known, command))
        if option.flag in given:
            raise ValueError(f"{option.flag} is given twice: give it once")
        # svg,png is one word
        many = takes(option.hint, tuple) and not any(isinstance(mark, Means) for mark in parts_of(option.hint)[1])
        if negated or option.hint is bool:
            if equals:
                raise ValueError(f"{typed} takes no value, not {value}: write {typed}, or leave it out")
            given[option.flag] = ["false" if negated else "true"]
        elif equals:
            given[option.flag] = [value] if value else []
        elif many:
            given[option.flag] = list(itertools.takewhile(lambda word: word and not word.startswith("--"), rest))
            del rest[: len(given[option.flag])]
        else:
            given[option.flag] = [rest.pop(0)] if rest and rest[0] and not rest[0].startswith("--") else []
        if not given[option.flag] and not takes(option.hint, bool):
            raise ValueError(f"{option.flag} needs a value: {described(option.hint)}")
    values = _words(own, loose, command)
    values |= {o.name: value_of(o, given.pop(o.flag)) for o in own if o.flag in given}
    for option in own:
        if option.default is MISSING and option.name not in values:
            wanted = f"{command} needs {option.flag}: {described(option.hint)}"
            raise ValueError(option.metadata.get("missing", wanted))
    if apart is not None:
        values[apart.name] = {known[flag].name: raw for flag, raw in given.items()}
    values |= {f.name: " ".join(args) for f in fields_of(kind) if "line" in f.metadata}
    return kind(**values)


def _positive(flag: str) -> str:
    """--train.measure for --train.no-measure."""
    return re.sub(r"^(--(?:.*\.)?)no-(?=[^.]+$)", r"\1", flag)


def _words(own: Sequence[Option], loose: Sequence[str], command: str) -> Values:
    values: Values = {}
    left = list(loose)
    places = [option for option in own if "words" in option.metadata]
    for option in places:
        many = takes(option.hint, tuple)
        taken, left = (left, []) if many else (left[:1], left[1:])
        if taken:
            values[option.name] = value_of(option, taken)
    if left:
        hint = next((option.metadata["extra"] for option in places if option.metadata["extra"]), "")
        takes_what = " ".join(option.value for option in places) or "no words"
        raise ValueError(
            f"{command} takes {takes_what}, but got {' '.join(left)} as well" + (f": {hint}" if hint else "")
        )
    return values


def value_of(option: Option, raw: Sequence[str]) -> object:
    """The words of one option as a value of its type."""
    word = option.name if "|" in option.value else option.value  # list|get|check is no name of a word
    hint, named = option.hint, word if "words" in option.metadata else option.flag
    if takes(hint, type(None)) and list(raw) in (["none"], ["None"]):
        return None
    for form in (raw[0], tuple(raw)) if len(raw) == 1 else (tuple(raw),):
        try:
            value = adapter(hint).validate_python(form)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "value_error":  # of a validator of ours, which is a sentence already
                raise ValueError(f"{named} {first.get('ctx', {})['error']}") from None
            continue
        numbers = [
            number for number in (value if isinstance(value, tuple) else (value,)) if isinstance(number, int | float)
        ]
        if all(abs(number) <= LARGEST for number in numbers):  # not of nan
            return value
    choices, given = names_of(hint), " ".join(raw)
    near = difflib.get_close_matches(given, choices, n=1, cutoff=0.5)
    raise ValueError(f"{named} must be {described(hint)}, not {given}" + (f"; did you mean {near[0]}?" if near else ""))


def unknown_option(typed: str, known: Iterable[str], command: str) -> str:
    near = _meant(typed.replace("_", "-"), list(known))
    own = [flag for flag in known if "." not in flag]
    more = next((flag for flag in known if "." in flag), None)
    listed = [*own, f"and options of the recipe, such as {more}"] if more else own
    takes = f"it takes {', '.join(listed)}" if 0 < len(own) < 9 else "" if own else "it takes no options"
    about = [part for part in (takes, f'"vix {command} --help" explains its options' if own else "") if part]
    return f"{command} has no option {typed}; " + (f"did you mean {near}? " if near else "") + "; ".join(about)


def _meant(word: str, flags: Sequence[str]) -> str | None:
    """--seed is --seeds, or else --train.seed, and not --data.split-seed: the last part counts, and a flag with as
    many parts comes first. Similar spelling comes last."""
    last = {flag: flag.lstrip("-").rpartition(".")[2] for flag in flags}
    typed = word.lstrip("-").rpartition(".")[2]
    if not typed:
        return None
    same = [flag for flag in flags if last[flag].startswith(typed) or typed.startswith(last[flag])]
    if same:
        return min(same, key=lambda flag: (flag.count(".") != word.count("."), last[flag] != typed, len(flag)))
    near = difflib.get_close_matches(word, flags, n=1, cutoff=0.7)
    return (
        near[0] if near else next((f for f in flags if difflib.get_close_matches(typed, [last[f]], cutoff=0.7)), None)
    )


def pick_kind(kinds: type | Mapping[str, type], args: Sequence[str], command: str) -> tuple[type, list[str], str]:
    """The dataclass of a command, or of the subcommand that the first word names; the other words; the whole name of
    the command."""
    if not isinstance(kinds, Mapping):
        return kinds, list(args), command
    if not args or args[0].startswith("-"):
        raise ValueError(
            f'{command} needs one of the words {", ".join(kinds)}: write "vix {command} {next(iter(kinds))}"'
        )
    if args[0] not in kinds:
        raise ValueError(unknown(f"kind of {command}", args[0], kinds))
    return kinds[args[0]], list(args[1:]), f"{command} {args[0]}"
