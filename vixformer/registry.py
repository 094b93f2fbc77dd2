"""Names people type: how a class gets one, and what a person reads when the name or an option is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from vixformer.jsonfile import Given, Values

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
LARGEST = 2**53
"""Of whole numbers in a configuration: products of two still fit into the sizes that torch computes with."""


class Named:
    """Classes known by a word: `class Stem(Named, family="stem")` opens a family, `class Conv(Stem, name="conv")` joins
    it."""

    families: ClassVar[list[type[Named]]] = []
    family: ClassVar[str]
    members: ClassVar[dict[str, type]]
    name: ClassVar[str]

    def __init_subclass__(cls, *, family: str | None = None, name: str | None = None) -> None:
        super().__init_subclass__()
        if family is not None:
            cls.family, cls.members = family, {}
            Named.families.append(cls)
        if name is not None:
            if name in cls.members:
                raise ValueError(
                    f'two classes want the {cls.family} name "{name}": {cls.members[name].__qualname__} and'
                    f" {cls.__qualname__}"
                )
            cls.name = name
            cls.members[name] = cls

    @classmethod
    def member(cls, name: str) -> type[Any]:
        return pick(cls.members, name, cls.family)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What every `Config` is; a family says in its own which kind of class owns it."""

    owner: ClassVar[type[Any]]
    chooses: ClassVar[type[Named]]


class Configured(Named):
    """Named classes that each own a frozen dataclass `Config`: `config.owner(config, ...)` builds what a configuration
    describes.

    A field annotated with the `Config` of a family's base (`Config.chooses` is the family) holds the configuration of
    any member.
    """

    Config: ClassVar[type[Settings]]

    def __init_subclass__(cls, *, family: str | None = None, name: str | None = None) -> None:
        super().__init_subclass__(family=family, name=name)
        if family is not None:
            cls.Config.chooses = cls
        if name is not None:
            if "Config" not in vars(cls):
                # where pickle will look for it
                place = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.Config"}
                cls.Config = dataclasses.dataclass(frozen=True, kw_only=True)(type("Config", (cls.Config,), place))
            cls.Config.owner = cls


def pick(choices: Mapping[str, T], word: str, what: str) -> T:
    """The choice called `word`, or an error that names the word, the nearest known one and all the choices."""
    if word in choices:
        return choices[word]
    raise ValueError(unknown(what, word, choices))


def later(default: T) -> T:
    """A field that was added after runs had been named by their content hash: `stated` leaves it out at this
    default."""
    return dataclasses.field(default=default, metadata={"later": True})


def fields_of(config: DataclassInstance | type) -> tuple[dataclasses.Field[object], ...]:
    """Of a dataclass that a type variable stands for."""
    return dataclasses.fields(config)


def stated(config: DataclassInstance) -> Values:
    """The fields of a configuration and their values, as they are written down and hashed."""
    values = {field: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {
        field.name: value for field, value in values.items() if "later" not in field.metadata or value != field.default
    }


def unknown(what: str, word: str, choices: Iterable[str]) -> str:
    choices = sorted(choices)
    near = difflib.get_close_matches(str(word), choices, n=1, cutoff=0.5)
    hint = f'; did you mean "{near[0]}"?' if near else ";"
    return f'unknown {what} "{word}"{hint} choices: {", ".join(choices) or "none"}'


def checked(config: type[T], values: Given, where: str) -> T:
    """`config(**values)` with every value checked against its annotation; errors are one sentence for a person."""
    names = [field.name for field in fields_of(config)]
    for key in values:
        if key not in names:
            raise ValueError(unknown(f"option of {where}", key, names))
    try:
        made = adapter(config).validate_python(
            {key: _worded(value, _hints(config)[key]) for key, value in values.items()}
        )
    except ValidationError as error:
        raise ValueError(f"{where}: {_sentence(error, _hints(config))}") from None
    for key, value in values.items():
        for number in value if isinstance(value, list | tuple) else (value,):
            if isinstance(number, int) and abs(number) > LARGEST:
                raise ValueError(f"{where}: {key} must be at most {LARGEST}, not {_short(number)}")
    for key in values:  # only now is the word inf a number
        if isinstance(getattr(made, key), float) and not math.isfinite(getattr(made, key)):
            raise ValueError(f"{where}: {key} must be a finite number, not {values[key]}")
    return made


def fitted(kind: type[T], value: Any, where: str) -> T:
    """The value itself, if it has the shape of `kind` (a TypedDict, a list of them). `where` begins the error
    message."""
    try:
        adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        raise ValueError(f"{where}: {_misfit(error)}") from None
    return value


def made_of(kind: type[T], value: object, where: str) -> T:
    """The dataclass, or the collection of them, that a value from a JSON file describes; errors as of `fitted`."""
    try:
        return adapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise ValueError(f"{where}: {_misfit(error)}") from None


def _misfit(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"it has no {place}"
    what = first["msg"].removeprefix("Input ").replace("should be a valid dictionary", "should be an object")
    return f"{place or 'it'} {what}, not {_short(first['input'])}"


def _short(value: object, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


@functools.cache
def _hints(config: type) -> Values:
    return get_type_hints(config)


@functools.cache
def adapter(config: type) -> TypeAdapter[Any]:
    """Made once: that takes milliseconds, and a report checks a thousand configurations."""
    return TypeAdapter(config)


def _worded(value: object, hint: object) -> object:
    """true and false as words where they are no choice: pydantic would take them for 1 and 0."""
    return str(value).lower() if isinstance(value, bool) and not _takes_bool(hint) else value


def _takes_bool(hint: object) -> bool:
    return hint is bool or hint is Any or any(_takes_bool(part) for part in get_args(hint))


def _sentence(error: ValidationError, hints: Given) -> str:
    first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "value_error":  # raised by a __post_init__ of ours, which is a sentence already
        return str(first["ctx"]["error"]) if "ctx" in first else first["msg"]
    if first["type"] in ("missing", "missing_argument"):
        return f"{key} is missing"
    # A union reports every branch; together they say what would be right.
    wanted = [_wanted(e) for e in error.errors() if e["loc"] and str(e["loc"][0]) == key]
    if type(None) in get_args(hints.get(key)):  # pydantic does not say so
        wanted.append("none")
    return f"{key} must be {' or '.join(dict.fromkeys(wanted))}, not {_short(first['input'])}"


def _wanted(error: ErrorDetails) -> str:
    if error["type"] == "literal_error":
        return error.get("ctx", {})["expected"].replace("'", "")
    if error["type"] == "too_short":
        return "at least one number"
    what: str = error["msg"].removeprefix("Input should be ").split(",")[0]
    plain = {
        "None": "none",
        "a valid integer": "a whole number",
        "a valid number": "a number",
        "a valid tuple": "several numbers",
        "a valid boolean": "true or false",
    }
    return plain.get(what, what)
