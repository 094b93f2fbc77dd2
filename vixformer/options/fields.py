"""The fields of an options dataclass, and what the class says of each flag."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

from vixformer.jsonfile import Given
from vixformer.options.hints import Means, synopsis
from vixformer.registry import fields_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Changes = Mapping[str, Sequence[str]]
"""Words given for options of other dataclasses: {"train.lr": ["1e-3"]}."""
Sections = Mapping[str, Sequence["DataclassInstance | type"]]
"""Dataclasses, or instances for their defaults, by the first part of their flags. Several are alternatives."""
Folder = Annotated[Path, Means("a folder", "FOLDER")]
File = Annotated[Path, Means("a file", "FILE")]


def words(default: object = MISSING, missing: str = "", extra: str = "") -> Any:
    """A field of words without a flag. `missing` is the error where a required one is not given, `extra` where there
    are too many."""
    return dataclasses.field(default=default, metadata={"words": True, "missing": missing, "extra": extra})


def needed(missing: str) -> Any:
    """A required flag. `missing` is the error where it is not given."""
    return dataclasses.field(metadata={"missing": missing})


def short(flag: str, default: T) -> T:
    """A flag with a short form, such as -o."""
    return dataclasses.field(default=default, metadata={"short": flag})


def sections(find: Callable[[str | None], Sections]) -> Changes:
    """A field for `Changes`. `find` gets the first word of the command line, or None, and imports what it needs."""
    return dataclasses.field(default_factory=dict, metadata={"sections": find})


def as_typed() -> str:
    """A field for the words of the command as they were typed."""
    return dataclasses.field(default="", metadata={"line": True})


@dataclass(frozen=True)
class Option:
    name: str
    hint: object
    default: object
    about: str
    group: str
    metadata: Given

    @property
    def flag(self) -> str:
        return flag_of(self.name)

    @property
    def value(self) -> str:
        """What follows the flag, in the synopsis."""
        return "" if self.hint is bool else synopsis(self.hint, self.name)


PLUGIN = Option(
    "plugin",
    Annotated[Path, Means("a Python file, such as mymean.py", "FILE.py")],
    None,
    "Python file of yours with attentions, backbones, data sets, recipes or loggers; may be given several times.",
    "Every command",
    {},
)
"""Option of every command. It is read before the other options, because the file may add choices to them."""


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def options_of(config: DataclassInstance | type, section: str = "", group: str = "") -> list[Option]:
    """The options of a dataclass. The values of an instance are the defaults."""
    kind = config if isinstance(config, type) else type(config)
    hints, texts = get_type_hints(kind, include_extras=True), _texts(kind)
    found = []
    for field in dataclasses.fields(kind):
        if not field.init or "line" in field.metadata or "sections" in field.metadata:
            continue
        default = field.default if config is kind else getattr(config, field.name)
        name = f"{section}.{field.name}" if section else field.name
        about, place = texts.get(field.name, ""), group or _group(kind, field.name)
        found.append(Option(name, hints[field.name], default, about, place, field.metadata))
    return found


def find_options(found: Sections) -> dict[str, Option]:
    """Fields of the sections by flag; the first alternative that has a flag counts."""
    by_flag: dict[str, Option] = {}
    for section, configs in found.items():
        for config in configs:
            for option in options_of(config, section, section):
                by_flag.setdefault(option.flag, option)
    return by_flag


def all_options(kind: type) -> list[Option]:
    """All fields, with those of its sections in every alternative."""
    apart = loose_field(kind)
    return options_of(kind) + ([] if apart is None else list(find_options(apart.metadata["sections"](None)).values()))


def loose_field(kind: type) -> dataclasses.Field[object] | None:
    return next((field for field in dataclasses.fields(kind) if "sections" in field.metadata), None)


def only(kind: type[T], values: object) -> T:
    """The part of these options that this dataclass has."""
    return kind(**{field.name: getattr(values, field.name) for field in fields_of(kind)})


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


def first_paragraph(text: str | None) -> str:
    """The words of a docstring on one line, because the source breaks lines anywhere."""
    return " ".join((text or "").strip().partition("\n\n")[0].split())


def _group(kind: type, field: str) -> str:
    """The first line of the class that a field is from, where several commands share it."""
    owner = next(base for base in reversed(kind.__mro__) if field in vars(base).get("__annotations__", ()))
    title = first_paragraph(owner.__doc__).rstrip(".")
    # that is what a dataclass says by itself
    return "Options" if owner is kind or title.startswith(f"{owner.__name__}(") else title
