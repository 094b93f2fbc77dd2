"""What a caller may see of a run in progress, and how it may end it."""

from __future__ import annotations

from vixformer.jsonfile import Values
from vixformer.training.state import State


class Observer:
    """What a caller may want to see while it runs. Does nothing."""

    def begins_with(self, what: str) -> None: ...
    def taught(self, step: int, steps: int, error: float) -> None: ...
    def epoch_begins(self, epoch: int, batches: int) -> None: ...
    def batch_done(self, state: State, loss: float) -> None: ...
    def epoch_done(self, record: Values) -> None: ...
    def ends(self) -> None: ...


class Stopped(Exception):
    """An observer's way to end a run after an epoch; what was done is kept."""
