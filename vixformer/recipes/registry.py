"""Where recipes are kept."""

from __future__ import annotations

from collections.abc import Callable

from vixformer.config import Recipe

RECIPES: dict[str, Callable[[], Recipe]] = {}


def add(name: str, make: Callable[[], Recipe]) -> None:
    if name in RECIPES:
        raise ValueError(f'two recipes are called "{name}"')
    RECIPES[name] = make
