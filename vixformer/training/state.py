"""Everything a training run is at one moment, and its way to disk and back: bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import TypedDict

from vixformer.backbones.backbone import Backbone
from vixformer.jsonfile import Values
from vixformer.registry import fitted
from vixformer.results.files import inside, read_tensors, write_tensors
from vixformer.results.schema import Amount, Conversion, Count
from vixformer.training.group import here, parted, whole
from vixformer.training.optim import Average


class Sums(TypedDict):
    loss: float
    hits: Amount
    images: Amount


class Record(TypedDict):
    """What every line of a history has; all the others are numbers too."""

    epoch: Count
    seconds: Amount
    evaluation_seconds: Amount


class Note(TypedDict):
    """The numbers of a checkpoint."""

    epoch: Count
    batch: Count
    steps: Count
    rate_factor: Annotated[float, Field(gt=0, le=1)]
    seconds: Amount
    sums: Sums
    history: list[Record]
    conversion: Conversion | None
    scaler: dict[str, float | int]


@dataclass
class State:
    model: Backbone
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    order: torch.Generator
    """Decides the order of the images, an epoch at a time."""
    augment: torch.Generator
    redraw: torch.Generator
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch that are done."""
    steps: int = 0
    """Optimizer steps in all."""
    rate_factor: float = 1.0
    """Halved each time training went back after a loss that was not finite."""
    seconds: float = 0.0
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("loss", "hits", "images"), 0.0))
    """Of the epoch so far."""
    history: list[Values] = field(default_factory=list)
    conversion: Values | None = None
    """What the model was made from, where it was."""
    average: Average | None = None
    """Of the weights, where the recipe asks for it."""

    GENERATORS = ("order", "augment", "redraw")
    NUMBERS = ("epoch", "batch", "steps", "rate_factor", "seconds", "sums", "history", "conversion")

    def save(self, path: Path, write: bool = True) -> None:
        """Of a model in parts, every process has to call it, and one writes."""
        tensors = {f"model.{name}": whole(t).contiguous() for name, t in _unshared(self.model.state_dict()).items()}
        optimizer = self.optimizer.state_dict()
        for number, values in optimizer["state"].items():
            found = {key: whole(torch.as_tensor(value)) for key, value in values.items() if value is not None}
            tensors |= {f"optimizer.{number}.{key}": value for key, value in found.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": t.contiguous() for name, t in self.average.weights.items()}
        tensors |= {f"generator.{name}": getattr(self, name).get_state() for name in self.GENERATORS}
        tensors["generator.torch"] = torch.get_rng_state()
        note = {name: getattr(self, name) for name in self.NUMBERS} | {"scaler": self.scaler.state_dict()}
        if write:
            write_tensors(path, tensors, note)

    def load(self, path: Path, monitor: str | None = None) -> None:
        """`monitor` is what chooses the best epoch, if anything does."""
        tensors, note = read_tensors(path)
        fitted(Note, note, f"{path} is damaged")
        fitted(list[dict[str, float]], note["history"], f"{path} is damaged: its history")
        if note["epoch"] != len(note["history"]) or (note["batch"] > 0) != (note["sums"]["images"] > 0):
            raise ValueError(
                f"{path} is damaged: its history is not that of {note['epoch']} epochs and {note['batch']} batches"
            )
        compared = [*note["history"], *(note["conversion"]["stages"] if note["conversion"] else [])]
        if monitor is not None and any(not isinstance(record.get(monitor), int | float) for record in compared):
            raise ValueError(f"{path} is damaged: an epoch of its history has no {monitor}, which chooses the best one")
        try:
            self._load(tensors, note)
        except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
            lines = [line.strip() for line in str(error).splitlines()]  # torch names every weight, one a line
            raise ValueError(
                f"{path} does not fit this recipe: {' '.join(lines[:2])}{' ...' if lines[2:] else ''}"
            ) from None

    def _load(self, tensors: dict[str, Tensor], note: Values) -> None:
        weights = inside(tensors, "model.")
        own = _unshared(self.model.state_dict())
        missing = set(own) ^ set(weights)
        if missing:
            raise ValueError(f"weights differ: {', '.join(sorted(missing)[:3])}")
        self.model.load_state_dict({name: parted(t, own[name]) for name, t in weights.items()}, strict=False)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        state: dict[int, Values] = {}
        for name, tensor in inside(tensors, "optimizer.").items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = parted(tensor, parameters[int(number)])
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        if self.average is not None:
            averaged = inside(tensors, "average.")
            for name, t in self.average.weights.items():
                t.copy_(averaged[name])
        for name in self.GENERATORS:
            getattr(self, name).set_state(tensors[f"generator.{name}"])
        torch.set_rng_state(tensors["generator.torch"])
        self.scaler.load_state_dict(note.pop("scaler"))
        for name in self.NUMBERS:
            setattr(self, name, note[name])


def _unshared(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A weight that several layers share once, under its first name."""
    seen: set[int] = set()
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        place = here(tensor).data_ptr()
        if place not in seen:
            found[name] = tensor
        if place:  # an empty tensor has none
            seen.add(place)
    return found
