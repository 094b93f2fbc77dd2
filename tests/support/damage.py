"""Ways to damage a file: by what it says, where that is known, and byte by byte. The same seed gives the same
damage."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import sqlite3
import struct
import tempfile
from pathlib import Path
from random import Random
from typing import Any

TEXT = (
    "",
    "x",
    "<!--<script>",
    "=1+1",
    "a | b\n",
    "../../../../etc/passwd",
    "softmax",
    "mymean",
    "none",
    "first(performer)",
    "-" * 5000,
)
ODD = (
    *(
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1",
        "2",
        "0.5",
        "-0.0",
        "7",
        "1e-320",
        "1e308",
        "-1e308",
        "1e999",
        "NaN",
        "-Infinity",
    ),
    *(
        "4096",
        "100000",
        "10000000000",
        "2147483648",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "9" * 5000,
    ),
    *(
        "[]",
        "{}",
        '[["a"]]',
        "[[[[0]]]]",
        '{"a": {"b": 1}}',
        "[0, 0]",
        "[1, null]",
        '{"a": 1, "a": 2}',
        "[" * 900 + "]" * 900,
    ),
    *(
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 30 + "]" * 30,
        r'"\ud800"',
        r'"\u0000"',
        r'"\u2028"',
        '"\U0001f600"',
        "'x'",
        "undefined",
    ),
    *(json.dumps(text) for text in TEXT),
)
"""As JSON has it, or nearly."""
MARK = "\ue000"
"""In place of a value that JSON could not write."""


def bytes_of(good: bytes, random: Random) -> bytes:
    """Bits turned, a piece cut, doubled, zeroed or replaced, the end cut off."""
    data = bytearray(good)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = random.randrange(len(data) + 1)
        upto = min(len(data), at + random.choice((1, 2, 4, 8, 100, 1000)))
        way = random.randrange(7)
        if way <= 1 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif way == 2:
            del data[at:upto]
        elif way == 3:
            data[at:at] = data[at:upto]
        elif way == 4:
            data[at:upto] = bytes(upto - at)
        elif way == 5:
            data[at:upto] = random.randbytes(upto - at)
        else:
            del data[at:]
    return bytes(data)


def json_of(good: bytes, random: Random) -> bytes:
    """One or more values of it become odd, go, double or move."""
    value: Any = json.loads(good)
    odd: list[str] = []
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        value = _changed(value, random, odd)
    text = json.dumps(value)
    for number, raw in enumerate(odd):
        text = text.replace(json.dumps(f"{MARK}{number}"), raw)
    return text.encode("utf-8", "surrogatepass")


def _changed(value: Any, random: Random, odd: list[str]) -> Any:
    places = list(_places(value))
    if not places:
        return _odd(random, odd)
    holder, key = random.choice(places)
    way = random.randrange(10)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[random.choice((f"{key}x", "model", "\u2028", "", "__class__"))] = holder.pop(key)
    elif way == 2:
        holder[key] = [holder[key]]
    elif way == 3:
        other, name = random.choice(places)
        holder[key] = copy.deepcopy(other[name])
    elif way == 4 and isinstance(holder[key], int | float):
        holder[key] *= random.choice((-1, 0, 10, 1e6, 10**12))
    elif way == 5 and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = _odd(random, odd)
    return value


def _odd(random: Random, odd: list[str]) -> str:
    odd.append(random.choice(ODD))
    return f"{MARK}{len(odd) - 1}"


def _places(value: Any) -> list[tuple[Any, Any]]:
    inside = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [place for key, below in inside for place in ((value, key), *_places(below))]


def lines_of(good: bytes, random: Random) -> bytes:
    lines = good.splitlines()
    at = random.randrange(len(lines))
    lines[at] = json_of(lines[at], random)
    return b"\n".join(lines) + b"\n"


def safetensors_of(good: bytes, random: Random) -> bytes:
    """Its header says something else, or the note inside that does."""
    (length,) = struct.unpack("<Q", good[:8])
    header, body = good[8 : 8 + length], good[8 + length :]
    names = json.loads(header)
    if "note" in names.get("__metadata__", {}) and random.random() < 0.7:
        names["__metadata__"]["note"] = json_of(names["__metadata__"]["note"].encode(), random).decode(
            "utf-8", "replace"
        )
        header = json.dumps(names).encode()
    elif random.random() < 0.5:
        header = json_of(header, random)
    else:
        body = bytes_of(body, random)
    return struct.pack("<Q", len(header)) + header + body


def gzip_of(good: bytes, random: Random) -> bytes:
    return gzip.compress(bytes_of(gzip.decompress(good), random), 1)


def sqlite_of(good: bytes, random: Random) -> bytes:
    """A cell of its tables, or several, say something else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        path.write_bytes(good)
        with contextlib.closing(sqlite3.connect(path)) as database:
            for _ in range(random.choice((1, 1, 2, 5))):
                tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
                table, row = random.choice(
                    [(name, row) for name in tables for (row,) in database.execute(f"select rowid from {name}")]
                )
                column = random.choice([about[1] for about in database.execute(f"pragma table_info({table})")])
                ((value,),) = database.execute(f"select {column} from {table} where rowid = ?", (row,))
                with contextlib.suppress(sqlite3.IntegrityError):
                    database.execute(f"update {table} set {column} = ? where rowid = ?", (_cell(value, random), row))
            database.commit()
        return path.read_bytes()


def _cell(value: Any, random: Random) -> Any:
    try:
        inside = isinstance(json.loads(value), dict | list)
    except (TypeError, ValueError):
        inside = False
    if inside and random.random() < 0.7:
        return json_of(value.encode(), random).decode("utf-8", "replace")
    return random.choice((None, -1, 0, 2**62, 1e308, "", "x", b"\xff", random.choice(ODD)))
