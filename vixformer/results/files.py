"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vixformer.jsonfile import parse_json


def readable(path: Path) -> None:
    """For whom other new files are: safetensors makes its files the owner's alone."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def write_text(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_tensors(path: Path, tensors: dict[str, Tensor], note: Any) -> None:
    """Tensors and a JSON note beside them in one safetensors file."""
    part = path.with_name(path.name + ".part")
    try:
        save_file(tensors, part, metadata={"note": json.dumps(note)})
        readable(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, SafetensorError | OSError):
            kept = "; the previous one is kept" if path.exists() else ""
            raise ValueError(f"cannot write {path}: {error}{kept}") from None
        raise


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    try:
        with safe_open(path, framework="pt") as file:
            note = parse_json((file.metadata() or {}).get("note", "null"), "its note", finite=False)
            return {name: file.get_tensor(name) for name in file.keys()}, note  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is missing, damaged or cut short: {error}") from None
