"""What a type says to a person: a value in words, in the synopsis, and the choices that there are."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BeforeValidator

from vixformer.registry import Named

Word = TypeVar("Word")
BOUNDS = {"gt": "above", "ge": "of at least", "lt": "below", "le": "of at most"}


@dataclass(frozen=True)
class Means:
    """What a value is: in a sentence ("--out must be a folder"), in the synopsis (--out FOLDER), and by the names that
    there are."""

    text: str
    short: str
    names: Callable[[], Iterable[str]] | None = None


def _split(text: object) -> object:
    return [word for word in text.replace(" ", "").split(",") if word] if isinstance(text, str) else text


COMMAS = Means("one or more of {}, separated by commas", "{}")
Separated = Annotated[tuple[Word, ...], BeforeValidator(_split), COMMAS]
"""Words with commas between them, such as svg,png of `Separated[Literal["svg", "png"]]`."""


def parts_of(hint: object) -> tuple[object, tuple[object, ...]]:
    """The type, and what an annotation adds to it."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    kind, *marks = get_args(hint)
    return kind, tuple(more for mark in marks for more in getattr(mark, "metadata", None) or [mark])


def _forms(hint: object) -> tuple[object, ...]:
    """The members of a union, or the type alone."""
    kind, _ = parts_of(hint)
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (hint,)


def takes(hint: object, kind: type) -> bool:
    """Whether a value may be of this type."""
    return any(kind in (plain := parts_of(form)[0], get_origin(plain)) for form in _forms(hint))


def names_of(hint: object) -> list[str]:
    """The choices that there are."""
    kind, marks = parts_of(hint)
    for mark in marks:
        if isinstance(mark, type) and issubclass(mark, Named):
            return sorted(mark.members)
        if isinstance(mark, Means) and mark.names is not None:
            return sorted(mark.names())
    if get_origin(kind) is Literal:
        return [str(choice) for choice in get_args(kind)]
    return [name for form in get_args(kind) if form is not Ellipsis for name in names_of(form)]


def described(hint: object, many: str = "") -> str:
    """A value of this type in words: a whole number of at least 2."""
    kind, marks = parts_of(hint)
    for mark in marks:
        if isinstance(mark, Means):
            return mark.text.format(", ".join(names_of(hint))) if mark is COMMAS else mark.text
    if len(forms := _forms(hint)) > 1:
        return " or ".join(described(form) for form in sorted(forms, key=lambda form: form is type(None)))
    if get_origin(kind) is Literal or any(isinstance(mark, type) and issubclass(mark, Named) for mark in marks):
        *most, last = names_of(hint)
        return f"{', '.join(most)} or {last}" if most else last
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        many = "one or more" if inner[-1] is Ellipsis else {2: "two"}.get(len(inner), str(len(inner)))
        return described(inner[0], many)
    nouns = {int: "whole number", float: "number", str: "word", Path: "path"}
    if kind not in nouns:
        return {bool: "true or false", type(None): "none"}.get(kind, str(kind))
    limits = {
        name: f"{getattr(mark, name):{'g' if kind is float else ''}}"
        for mark in marks
        for name in BOUNDS
        if hasattr(mark, name)
    }
    noun = f"{many} {nouns[kind]}s" if many else f"a {nouns[kind]}"
    if {"ge", "le"} <= set(limits):
        return f"{noun} from {limits['ge']} to {limits['le']}"
    return " ".join([noun, " and ".join(f"{BOUNDS[name]} {limit}" for name, limit in limits.items())]).rstrip()


def synopsis(hint: object, name: str) -> str:
    """In the synopsis, what a value is."""
    kind, marks = parts_of(hint)
    for mark in marks:
        if isinstance(mark, Means):
            return ",".join(names_of(hint)) if mark is COMMAS else mark.short
    if get_origin(kind) is Literal:
        return "|".join(names_of(kind))
    if len(forms := [form for form in _forms(hint) if form is not type(None)]) > 1 or forms[0] is not hint:
        return synopsis(next((form for form in forms if form is not bool), bool), name)
    if get_origin(kind) is tuple:
        return f"{synopsis(get_args(kind)[0], name)}..."
    return {int: "N", float: "X", Path: "PATH", bool: "true|false"}.get(
        kind, name.rpartition(".")[2].replace("_", "-").upper()
    )
