"""A server of models, and requests to it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

EXACT, RELU = "softmax", "performer(kernel=relu, features=16)"
get = functools.partial(httpx.get, timeout=60)  # other tests may have the cores


@dataclass(frozen=True)
class Served:
    url: str
    folder: Path
    models: list[str]

    def ask(self, data: bytes, kind: str = "image/png", **query: Any) -> httpx.Response:
        query = {"model": self.models[0], **query}
        return httpx.post(
            f"{self.url}/api/predict", params=query, content=data, headers={"Content-Type": kind}, timeout=60
        )
