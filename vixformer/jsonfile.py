"""The only reader of JSON. A file may come from anywhere, so size, depth and numbers have limits, and an error is one
sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Values = dict[str, Any]
"""Options as they were given, or JSON as it was read: names and values of which only a check knows the types."""
Given = Mapping[str, Any]
MOST_BYTES = 32 * 2**20
"""The confusion matrix of a thousand classes takes ten MiB."""
MOST_DEPTH = 32
MOST_NUMBER = 2**63 - 1
"""Larger whole numbers fit into no tensor."""


def read_json(path: str | Path, *, finite: bool = True) -> Any:
    """`finite=False` lets NaN and infinities through: a training that diverged writes them."""
    return parse_json(read_limited(Path(path)), str(path), finite=finite)


def read_json_lines(path: str | Path, *, finite: bool = True) -> list[Any]:
    lines = read_limited(Path(path)).splitlines()
    return [parse_json(line, f"{path}, line {number},", finite=finite) for number, line in enumerate(lines, 1)]


def parse_json(text: str | bytes, where: str, *, finite: bool = True) -> Any:
    """`where` begins the error message."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_object, parse_int=_whole)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{where} is not JSON: {error}") from None
    except RecursionError:
        raise ValueError(f"{where} is nested too deeply: at most {MOST_DEPTH} levels are read") from None
    except ValueError as error:
        raise ValueError(f"{where} cannot be read: {error}") from None
    check_values(value, where, finite)
    return value


def read_limited(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device read for ever
            raise ValueError(f"cannot read {path}: it is not a regular file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path} is too large: at most {MOST_BYTES // 2**20} MiB are read")
    return data


def _object(pairs: list[tuple[str, object]]) -> Values:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f'"{next(name for name in names if names.count(name) > 1)}" is given twice in one object')
    return found


def _whole(digits: str) -> int:
    if len(digits) > len(str(-MOST_NUMBER)) or abs(int(digits)) > MOST_NUMBER:
        raise ValueError(f"the whole number {digits[:20]}... is too large: at most {MOST_NUMBER} is read")
    return int(digits)


def check_values(value: object, where: str, finite: bool = True) -> None:
    """Level by level, because a check that calls itself would need the depth that it forbids."""
    level = [value]
    for depth in range(MOST_DEPTH + 1):
        below: list[object] = []
        for one in level:
            if depth == MOST_DEPTH and isinstance(one, dict | list):
                raise ValueError(f"{where} is nested too deeply: at most {MOST_DEPTH} levels are read")
            if isinstance(one, dict):
                below += one
                below += one.values()
            elif isinstance(one, list):
                below += one
            elif isinstance(one, str):
                if not one.isascii() and any("\ud800" <= letter <= "\udfff" for letter in one):
                    raise ValueError(f"{where} has text that is not valid Unicode: half of a surrogate pair")
            elif finite and isinstance(one, float) and not math.isfinite(one):
                raise ValueError(f"{where} has the number {one}: numbers must be finite")
        level = below
