"""Tensors with a note beside them, in one file that is complete or absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vixformer.jsonfile import parse_json
from vixformer.writing import cannot_write, whole


def write_tensors(path: Path, tensors: dict[str, Tensor], note: object) -> None:
    """Tensors and a JSON note beside them in one safetensors file."""
    try:
        with whole(path) as part:
            save_file(tensors, part, metadata={"note": json.dumps(note)})
    except SafetensorError as error:
        raise cannot_write(path, error) from None


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    try:
        with safe_open(path, framework="pt") as file:
            note = parse_json((file.metadata() or {}).get("note", "null"), "its note", finite=False)
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, note
    except (OSError, SafetensorError, ValueError) as error:
        raise ValueError(f"{path} is missing, damaged or cut short: {error}") from None


def inside(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
