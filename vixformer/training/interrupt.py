"""Ctrl-C at a good moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


class Interrupt:
    """Ctrl-C, or a polite kill, waits for the end of a step, where everything agrees and can be stored; a second one
    does not wait.

    Where there is nothing to store, as in a process that only watches others, the first one does not wait either."""

    def __init__(self, waits: bool = True) -> None:
        self.waits = waits
        self.asked = False
        self.at_once = False
        self.previous: dict[int, Handler] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self.previous = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
        self.previous = {}

    def _note(self, *_: object) -> None:
        if self.asked or not self.waits:
            self.at_once = True
            raise KeyboardInterrupt
        self.asked = True
