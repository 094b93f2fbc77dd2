"""How often something expensive is done: models built, and data sets read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from vixformer.backbones.backbone import Backbone
from vixformer.conversion import swap
from vixformer.data.mini import FashionMini


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts `models` that are built on any device, `train` and `test` parts that are read, and `layers` that are
    fitted."""
    found: Counter[str] = Counter()

    def counting(what: str | None, function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            found[what or args[1]] += 1
            return function(*args, **options)

        return call

    def fit(tasks: Any, *args: Any) -> None:
        found["layers"] += len(tasks)
        original(tasks, *args)

    original = swap.fit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Backbone, "__init__", counting("models", Backbone.__init__))
        patch.setattr(FashionMini, "read", counting(None, FashionMini.read))
        patch.setattr(swap, "fit", fit)
        yield found
