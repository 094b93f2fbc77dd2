"""What a caller may see of a run in progress, and what ends it: the caller, Ctrl-C, or a number that is not finite."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

import torch
from torch import Tensor, nn

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


class NotFiniteError(ValueError):
    """A loss of NaN or infinity, and where it came from."""


@torch.no_grad()
def first_not_finite(model: nn.Module, images: Tensor) -> str:
    """The first module, in the order of computation, that makes NaN or infinity of finite input; or which weights are
    not finite."""
    for name, p in model.named_parameters():
        if not p.isfinite().all():
            return f"the weight {name}"
    if not images.isfinite().all():
        return "the images"
    found: list[str] = []

    def look(name: str) -> Callable[[nn.Module, object, object], None]:
        def hook(module: nn.Module, args: object, out: object) -> None:
            if isinstance(out, Tensor) and not found and not out.isfinite().all():
                found.append(f"{name} ({type(module).__name__})")

        return hook

    hooks = [m.register_forward_hook(look(name)) for name, m in model.named_modules() if name]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return f"the layer {found[0]}" if found else "the loss itself"


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
