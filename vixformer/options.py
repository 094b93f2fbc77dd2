"""The options of a command: one frozen dataclass, from which flags, checks, help and completion come.

A field `val_fraction: float = 0.1` is the flag `--val-fraction X`, and the text below the field is its help. `words` makes a field of the
words between the flags, `sections` one for the fields of other dataclasses, such as `--train.lr`. `Means` in an annotation says in
words what a value is.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import re
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, TypeAdapter, ValidationError

from vixformer.registry import LARGEST, Named, fields_of, unknown

T = TypeVar("T")
Changes = Mapping[str, Sequence[str]]
"""Words given for options of other dataclasses: {"train.lr": ["1e-3"]}."""
Sections = Mapping[str, Sequence[Any]]
"""Dataclasses, or instances for their defaults, by the first part of their flags. Several are alternatives."""
BOUNDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}
WIDEST, FLAG_COLUMN, LISTED = 110, 26, 24


@dataclass(frozen=True)
class Means:
    """What a value is: in a sentence ("--out must be a folder"), in the synopsis (--out FOLDER), and by the names that there are."""

    text: str
    short: str
    names: Callable[[], Iterable[str]] | None = None


Folder = Annotated[Path, Means("a folder", "FOLDER")]
File = Annotated[Path, Means("a file", "FILE")]


def commas(*choices: str) -> Any:
    """The annotation of words with commas between them, such as svg,png."""

    def split(text: Any) -> Any:
        return [word for word in text.replace(" ", "").split(",") if word] if isinstance(text, str) else text

    means = Means(f"one or more of {', '.join(choices)}, separated by commas", ",".join(choices))
    return Annotated[tuple[Literal[choices], ...], BeforeValidator(split), means]  # pyright: ignore[reportInvalidTypeForm]


def words(default: Any = MISSING, missing: str = "", extra: str = "") -> Any:
    """A field of words without a flag. `missing` is the error where a required one is not given, `extra` where there are too many."""
    return dataclasses.field(default=default, metadata={"words": True, "missing": missing, "extra": extra})


def short(flag: str, default: Any) -> Any:
    """A flag with a short form, such as -o."""
    return dataclasses.field(default=default, metadata={"short": flag})


def sections(find: Callable[[str | None], Sections]) -> Any:
    """A field for `Changes`. `find` gets the first word of the command line, or None, and imports what it needs."""
    return dataclasses.field(default_factory=dict, metadata={"sections": find})


def as_typed() -> Any:
    """A field for the words of the command as they were typed."""
    return dataclasses.field(default="", metadata={"line": True})


@dataclass(frozen=True)
class Option:
    name: str
    hint: Any
    default: Any
    about: str
    group: str
    metadata: Mapping[str, Any]

    @property
    def flag(self) -> str:
        return flag_of(self.name)

    @property
    def value(self) -> str:
        """What follows the flag, in the synopsis."""
        return "" if self.hint is bool else _short(self.hint, self.name)


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def options_of(config: Any, section: str = "", group: str = "") -> list[Option]:
    """Of a dataclass, or of an instance, whose values are the defaults then."""
    kind = config if isinstance(config, type) else type(config)
    hints, texts = get_type_hints(kind, include_extras=True), _texts(kind)
    found = []
    for field in dataclasses.fields(kind):
        if not field.init or "line" in field.metadata or "sections" in field.metadata:
            continue
        default = field.default if config is kind else getattr(config, field.name)
        name = f"{section}.{field.name}" if section else field.name
        found.append(Option(name, hints[field.name], default, texts.get(field.name, ""), group or _group(kind, field.name), field.metadata))
    return found


def find_options(found: Sections) -> dict[str, Option]:
    """By flag, of sections; the first alternative that has a flag counts."""
    by_flag: dict[str, Option] = {}
    for section, configs in found.items():
        for config in configs:
            for option in options_of(config, section, section):
                by_flag.setdefault(option.flag, option)
    return by_flag


def all_options(kind: type) -> list[Option]:
    """With those of its sections, of every alternative."""
    apart = _apart(kind)
    return options_of(kind) + ([] if apart is None else list(find_options(apart.metadata["sections"](None)).values()))


def _apart(kind: type) -> dataclasses.Field[Any] | None:
    return next((field for field in dataclasses.fields(kind) if "sections" in field.metadata), None)


def parse(kind: type[T], args: Sequence[str], command: str) -> T:
    """The options in these words. Flags and words come in any order."""
    own = options_of(kind)
    known = {option.flag: option for option in own if "words" not in option.metadata}
    shorts = {option.metadata["short"]: flag for flag, option in known.items() if "short" in option.metadata}
    apart = _apart(kind)
    loose: list[str] = []
    given: dict[str, list[str]] = {}
    rest = list(args)
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
        many = takes(option.hint, tuple) and not any(isinstance(mark, Means) for mark in _parts(option.hint)[1])  # svg,png is one word
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
    if apart is not None:
        values[apart.name] = {known[flag].name: raw for flag, raw in given.items()}
    values |= {f.name: " ".join(args) for f in fields_of(kind) if "line" in f.metadata}
    return kind(**values)


def _positive(flag: str) -> str:
    """--train.measure for --train.no-measure."""
    return re.sub(r"^(--(?:.*\.)?)no-(?=[^.]+$)", r"\1", flag)


def _words(own: Sequence[Option], loose: Sequence[str], command: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    left = list(loose)
    places = [option for option in own if "words" in option.metadata]
    for option in places:
        many = takes(option.hint, tuple)
        taken, left = (left, []) if many else (left[:1], left[1:])
        if taken:
            values[option.name] = value_of(option, taken)
        elif option.default is MISSING:
            raise ValueError(option.metadata["missing"])
    if left:
        hint = next((option.metadata["extra"] for option in places if option.metadata["extra"]), "")
        takes_what = " ".join(option.value for option in places) or "no words"
        raise ValueError(f"{command} takes {takes_what}, but got {' '.join(left)} as well" + (f": {hint}" if hint else ""))
    return values


def value_of(option: Option, raw: Sequence[str]) -> Any:
    """The words of one option as a value of its type."""
    hint, named = option.hint, option.value if "words" in option.metadata else option.flag
    if takes(hint, type(None)) and list(raw) in (["none"], ["None"]):
        return None
    for form in (raw[0], tuple(raw)) if len(raw) == 1 else (tuple(raw),):
        try:
            value = _adapter(hint).validate_python(form)
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "value_error":  # of a validator of ours, which is a sentence already
                raise ValueError(f"{named} {first.get('ctx', {})['error']}") from None
            continue
        numbers = [number for number in (value if isinstance(value, tuple) else (value,)) if isinstance(number, int | float)]
        if all(abs(number) <= LARGEST for number in numbers):  # not of nan
            return value
    choices, given = names_of(hint), " ".join(raw)
    near = difflib.get_close_matches(given, choices, n=1, cutoff=0.5)
    raise ValueError(f"{named} must be {described(hint)}, not {given}" + (f"; did you mean {near[0]}?" if near else ""))


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


def unknown_option(typed: str, known: Iterable[str], command: str) -> str:
    near = _meant(typed.replace("_", "-"), list(known))
    own = [flag for flag in known if "." not in flag]
    takes = f"it takes {', '.join(own)}" if 0 < len(own) < 9 else "" if own else "it takes no options"
    about = [part for part in (takes, f'"vix {command} --help" explains its options' if own else "") if part]
    return f"{command} has no option {typed}; " + (f"did you mean {near}? " if near else "") + "; ".join(about)


def _meant(word: str, flags: Sequence[str]) -> str | None:
    """--seed is --seeds, or else --train.seed, and not --data.split-seed: the last part counts, and a flag of the command comes before
    those of its sections. Similar spelling comes last."""
    last = {flag: flag.lstrip("-").rpartition(".")[2] for flag in flags}
    typed = word.lstrip("-").rpartition(".")[2]
    same = [flag for flag in flags if last[flag].startswith(typed) or typed.startswith(last[flag])]
    if same:
        return min(same, key=lambda flag: (flag.count("."), last[flag] != typed, len(flag)))
    near = difflib.get_close_matches(word, flags, n=1, cutoff=0.7)
    return near[0] if near else next((f for f in flags if difflib.get_close_matches(typed, [last[f]], cutoff=0.7)), None)


def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type, and what an annotation adds to it."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    kind, *marks = get_args(hint)
    return kind, tuple(more for mark in marks for more in (getattr(mark, "metadata", None) or [mark]))


def _forms(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type alone."""
    kind, _ = _parts(hint)
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (hint,)


def takes(hint: Any, kind: type) -> bool:
    """Whether a value may be of this type."""
    return any(kind in (plain := _parts(form)[0], get_origin(plain)) for form in _forms(hint))


def names_of(hint: Any) -> list[str]:
    """The choices that there are."""
    kind, marks = _parts(hint)
    for mark in marks:
        if isinstance(mark, type) and issubclass(mark, Named):
            return sorted(mark.members)
        if isinstance(mark, Means) and mark.names is not None:
            return sorted(mark.names())
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [name for form in get_args(kind) if form is not Ellipsis for name in names_of(form)]


def described(hint: Any, many: str = "") -> str:
    """A value of this type in words: a whole number of at least 2."""
    kind, marks = _parts(hint)
    for mark in marks:
        if isinstance(mark, Means):
            return mark.text
    if len(forms := _forms(hint)) > 1:
        return " or ".join(described(form) for form in sorted(forms, key=lambda form: form is type(None)))
    if get_origin(kind) is Literal or any(isinstance(mark, type) and issubclass(mark, Named) for mark in marks):
        *most, last = names_of(hint)
        return f"{', '.join(most)} or {last}" if most else last
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        return described(inner[0], "several" if inner[-1] is Ellipsis else {2: "two"}.get(len(inner), str(len(inner))))
    nouns = {int: "whole number", float: "number", str: "word", Path: "path"}
    if kind not in nouns:
        return {bool: "true or false", type(None): "none"}.get(kind, str(kind))
    limits = {name: f"{getattr(mark, name):{'g' if kind is float else ''}}" for mark in marks for name in BOUNDS if hasattr(mark, name)}
    noun = f"{many} {nouns[kind]}s" if many else f"a {nouns[kind]}"
    if {"ge", "le"} <= set(limits):
        return f"{noun} from {limits['ge']} to {limits['le']}"
    return " ".join([noun, " and ".join(f"{BOUNDS[name]} {limit}" for name, limit in limits.items())]).rstrip()


def _short(hint: Any, name: str) -> str:
    """In the synopsis, what a value is."""
    kind, marks = _parts(hint)
    for mark in marks:
        if isinstance(mark, Means):
            return mark.short
    if get_origin(kind) is Literal:
        return "|".join(names_of(kind))
    if len(forms := [form for form in _forms(hint) if form is not type(None)]) > 1 or forms[0] is not hint:
        return _short(next((form for form in forms if form is not bool), bool), name)
    if get_origin(kind) is tuple:
        return f"{_short(get_args(kind)[0], name)}..."
    return {int: "N", float: "X", Path: "PATH", bool: "true|false"}.get(kind, name.rpartition(".")[2].replace("_", "-").upper())


@functools.cache
def _texts(kind: type) -> dict[str, str]:
    """The text below each field, in the source of the class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        try:
            (made,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError):  # made by a call, or part of Python
            continue
        for field, text in itertools.pairwise(made.body if isinstance(made, ast.ClassDef) else ()):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = " ".join(said.split())
    return found


def _group(kind: type, field: str) -> str:
    """The first line of the class that a field is from, where several commands share it."""
    owner = next(base for base in reversed(kind.__mro__) if field in vars(base).get("__annotations__", ()))
    title = (owner.__doc__ or "").partition("\n")[0].rstrip(".")
    return "Options" if owner is kind or title.startswith(f"{owner.__name__}(") else title  # that is what a dataclass says by itself


def usage(kind: type, command: str) -> str:
    own = options_of(kind)
    places = [option for option in own if "words" in option.metadata]
    required = [f"{option.flag} {option.value}" for option in own if option.default is MISSING and option not in places]
    parts = [option.value if option.default is MISSING else f"[{option.value}]" for option in places]
    more = len(own) > len(places) + len(required) or _apart(kind) is not None
    return " ".join(["vix", command, *parts, *required, *(["[OPTIONS]"] if more else [])])


def help_of(kind: type, command: str, about: str, first: str | None = None, width: int = 80) -> str:
    """The page of `--help`. `first` is the first word after the command, whose sections are shown."""
    width = min(width, WIDEST)
    found = options_of(kind)
    apart = _apart(kind)
    lines = [usage(kind, command), "", *textwrap.wrap(about, width)]
    if apart is not None:
        for section, configs in apart.metadata["sections"](first).items():
            title = f"Options of {first or 'the recipe'}" + (f": {section}" if section else "")
            found += options_of(configs[0], section, title)
    for group, members in itertools.groupby(
        sorted(found, key=_rank(found)), key=lambda o: "Arguments" if "words" in o.metadata else o.group
    ):
        lines += ["", group, *itertools.chain.from_iterable(_explained(option, width) for option in members)]
    return "\n".join(lines) + "\n"


def _rank(found: Sequence[Option]) -> Callable[[Option], int]:
    """The command's own options come first, then those that it shares."""
    groups = list(dict.fromkeys(["Arguments", "Options", *(option.group for option in found)]))
    return lambda option: groups.index(option.group)


def _explained(option: Option, width: int) -> Iterator[str]:
    words = "words" in option.metadata
    flag = option.value if words else " ".join(part for part in (option.metadata.get("short", ""), option.flag, option.value) if part)
    choices = names_of(option.hint)
    listed = f"One of: {', '.join(choices)}." if 0 < len(choices) <= LISTED and not set(choices) & set(re.split("[|,]", flag)) else ""
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


def only(kind: type[T], values: Any) -> T:
    """The part of these options that this dataclass has."""
    return kind(**{field.name: getattr(values, field.name) for field in fields_of(kind)})


def pick_kind(kinds: Any, args: Sequence[str], command: str) -> tuple[type[Any], list[str], str]:
    """The dataclass of a command, or of the subcommand that the first word names; the other words; the whole name of the command."""
    if not isinstance(kinds, dict):
        return kinds, list(args), command
    if not args or args[0].startswith("-"):
        raise ValueError(f'{command} needs one of the words {", ".join(kinds)}: write "vix {command} {next(iter(kinds))}"')
    if args[0] not in kinds:
        raise ValueError(unknown(f"kind of {command}", args[0], kinds))
    return kinds[args[0]], list(args[1:]), f"{command} {args[0]}"
