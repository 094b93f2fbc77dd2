"""What a table says of itself."""

from __future__ import annotations

from typing import Any

from vixformer.experiments.compare import Comparison, Row
from vixformer.measure.latency import Timing
from vixformer.results.runs import Spread
from vixformer.terminal import comparison


def row(name: str, attention: str, val: float | None) -> Row:
    common: dict[str, Any] = dict(seeds=1, folds=None, parameters=1, by_seed={0: 50.0}, kept=1, peak=None, folders=())
    top1, seconds = Spread(50.0, None, 1), Spread(1.0, None, 1)
    timing = Timing(1.0, 1.0, 1.0, 0.0, 1)
    return Row(
        name=name, attention=attention, test_top1=top1, val_top1=None if val is None else Spread(val, None, 1),
        train_seconds=seconds, inference=timing, **common,
    )  # fmt: skip


def test_a_table_says_which_epoch_it_is_of_and_what_it_compares_with() -> None:
    linear, dropping = row("a", "fourier", None), row("b", "softmax(drop=0.1)", None)
    _, _, notes = comparison(Comparison([linear, dropping]))
    assert notes[0].startswith("Test top-1 at the last epoch, one seed")
    assert "x is relative to b." in notes[1]
    _, _, notes = comparison(Comparison([linear, row("b", "softmax", 51.0)]))
    assert notes[0].startswith("Test top-1 at the epoch chosen on validation")
    assert "Test top-1 at the last epoch, because there is no validation: a." in notes
