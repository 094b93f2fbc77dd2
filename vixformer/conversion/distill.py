"""Teach the layers of a converted model what the layers they replace do: images without labels, the old model as
teacher, a few minutes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from typing_extensions import NotRequired, TypedDict

from vixformer.attention.project.projection import Attention, Mixing, mechanism_of, output_of
from vixformer.backbones.backbone import Backbone
from vixformer.bridges.theirs import theirs
from vixformer.conversion.swap import configurations, differing
from vixformer.data.loader import Loader
from vixformer.jsonfile import Given, Values
from vixformer.registry import fitted
from vixformer.results.files import inside, read_tensors, write_tensors
from vixformer.results.schema import Amount, Count

SAVE_SECONDS = 60.0


def distill(
    student: nn.Module,
    teacher: nn.Module,
    batches: Iterable[Tensor] | Callable[[int], Tensor],
    *,
    steps: int = 300,
    lr: float = 1e-3,
    maps: float = 0.0,
    watch: Callable[[int, float], None] | None = None,
    keep: Path | None = None,
    fitting: float = 0.0,
) -> list[float]:
    """Train the attention of the layers that differ, in place; returns the mean relative error of their outputs after
    every step.

    Every layer gets the tokens that it gets in the teacher, so that all of them learn at once and errors do not add up.
    `maps` weighs the difference of the attention maps beside that of the outputs: quadratic, for small N. `batches` are
    images, or give those of a step; then `keep` may name a file from which interrupted distillation resumes, and which
    has its whole result in the end: also the cores as they were before, which took `fitting` seconds.
    """
    return _distill(theirs(student), theirs(teacher), batches, steps, lr, maps, watch, keep, fitting)


def _distill(
    student: Backbone,
    teacher: Backbone,
    batches: Iterable[Tensor] | Callable[[int], Tensor],
    steps: int,
    lr: float,
    maps: float,
    watch: Callable[[int, float], None] | None,
    keep: Path | None,
    fitting: float,
) -> list[float]:
    if len(student.attentions()) != len(teacher.attentions()):
        layers = f"{len(student.attentions())} layers and the teacher {len(teacher.attentions())}"
        raise ValueError(f"the student has {layers}: a student is what convert makes of its teacher")
    changed = differing(teacher, configurations(student))
    taught = [student.attentions()[i] for i in changed]
    modules = nn.ModuleList(taught)
    parameters = list(modules.parameters())
    if not parameters:
        return []
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    given = batches if callable(batches) else iter(batches)
    if isinstance(given, Iterator):
        keep = None
    if keep is not None and keep.exists():
        lesson = _gone_on_with(keep, changed, modules, optimizer)
    else:
        lesson = _Lesson(changed, fitted=_cores(taught), fitting=fitting)
    errors = lesson.errors
    training, saved = student.training, time.monotonic()
    student.eval()  # batch norms and dropout as they are in use
    try:
        for step in range(len(errors), steps):
            began = time.monotonic()
            for group in optimizer.param_groups:
                group["lr"] = lr * (1 - step / steps)
            seen = teacher.attention_inputs(_batch(given, step, steps))
            relative = [_difference(new, *seen[i], maps) for i, new in zip(changed, taught, strict=True)]
            loss = torch.stack([output + maps * map_ for output, map_ in relative]).sum()
            if not torch.isfinite(loss):
                raise ValueError(
                    f"distillation diverged in step {step + 1} of {steps}, at the learning rate {lr:g}: use a"
                    " smaller one"
                )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            errors.append([float(output.detach().sqrt()) for output, _ in relative])
            lesson.seconds += time.monotonic() - began
            if watch is not None:
                watch(step, statistics.fmean(errors[-1]))
            if keep is not None and time.monotonic() - saved > SAVE_SECONDS:
                _save(keep, modules, optimizer, lesson)
                saved = time.monotonic()
        if keep is not None:
            _save(keep, modules, None, lesson)
    except KeyboardInterrupt:
        if keep is not None:
            _save(keep, modules, optimizer, lesson)
        raise
    finally:
        student.train(training)
        optimizer.zero_grad(set_to_none=True)
    return [statistics.fmean(step) for step in errors]


def images_of_step(loader: Loader, seed: int, step: int) -> Tensor:
    """The images of a step of distillation: by its number alone, so that it can resume anywhere."""
    generator = torch.Generator().manual_seed((seed << 32) + step)
    return next(loader.batches(loader.order(generator)[: loader.batch_size], generator))[0]


# --- what is kept of it


@dataclass
class _Lesson:
    layers: list[int]
    errors: list[list[float]] = field(default_factory=list)
    """Of every step, layer by layer."""
    seconds: float = 0.0
    fitting: float = 0.0
    fitted: dict[str, Tensor] = field(default_factory=dict)
    """The cores before distillation, `fitted.NUMBER.WEIGHT`; absent in older files."""


class _Note(TypedDict):
    """What is stored of a lesson beside its weights."""

    layers: NotRequired[list[Count]]
    errors: list[list[Amount] | Amount]
    seconds: NotRequired[Amount]
    fitting: NotRequired[Amount]


def seconds_of(path: Path | None) -> tuple[float, float]:
    """What fitting before a stored distillation took, and what distillation has taken so far."""
    note: Given = {} if path is None or not path.exists() else _read(path)[1]
    return note.get("fitting", 0.0), note.get("seconds", 0.0)


def fitted_before(path: Path, cores: Mapping[int, nn.Module]) -> set[int]:
    """Give the cores of these layers the weights that were fitted before the distillation stored in `path`; returns the
    layers that had some."""
    if not path.exists():
        return set()
    tensors, note = _read(path)
    found = set[int]()
    for number, layer in enumerate(note.get("layers", [])):
        state = inside(tensors, f"fitted.{number}.")
        if layer in cores and state:
            try:
                cores[layer].load_state_dict(state)
            except RuntimeError as error:
                raise _does_not_fit(path, error) from None
            found.add(layer)
    return found


def _cores(modules: Iterable[Attention | Mixing]) -> dict[str, Tensor]:
    states = (mechanism_of(module).state_dict() for module in modules)
    return {
        f"fitted.{number}.{name}": t.detach().clone()
        for number, state in enumerate(states)
        for name, t in state.items()
    }


def _does_not_fit(path: Path, error: Exception) -> ValueError:
    first = str(error).splitlines()[0]  # torch names every weight, one a line
    return ValueError(f"{path} does not fit this conversion, delete it to distil from the beginning: {first}")


def _read(path: Path) -> tuple[dict[str, Tensor], _Note]:
    tensors, note = read_tensors(path)
    fitted(_Note, note, f"{path} is damaged, delete it to distil from the beginning")
    return tensors, note


def part_of_lesson(whole: Path, layers: Sequence[int], path: Path) -> None:
    """Store the distillation of some of its layers: each layer was distilled on its own, so these need not be distilled
    again."""
    tensors, note = _read(whole)
    known = note.get("layers", [])
    if not set(layers) <= set(known) or any(
        not isinstance(step, list) or len(step) != len(known) for step in note["errors"]
    ):
        raise ValueError(f"{whole} is not of these layers, delete it to distil them from the beginning")
    at = [known.index(layer) for layer in sorted(layers)]
    part = {
        f"{what}.{new}.{name}": tensor
        for what in ("module", "fitted") for new, old in enumerate(at) for name,
        tensor in inside(tensors, f"{what}.{old}.").items()
    }  # fmt: skip
    errors = [[step[i] for i in at] for step in note["errors"] if isinstance(step, list)]
    spent = {key: note.get(key, 0.0) for key in ("seconds", "fitting")}
    write_tensors(path, part, {"layers": sorted(layers), "errors": errors, **spent})


def _batch(given: Iterator[Tensor] | Callable[[int], Tensor], step: int, steps: int) -> Tensor:
    if not isinstance(given, Iterator):
        return given(step)
    try:
        return next(given)
    except StopIteration:
        raise ValueError(f"there were images for {step} of {steps} steps: give more, or fewer steps") from None


def _difference(
    new: Attention | Mixing, old: Attention | Mixing, tokens: Tensor, options: Values, maps: float
) -> tuple[Tensor, Tensor]:
    """Squared relative error of the output, and of the map where that counts."""
    training = old.training
    with torch.no_grad():
        wanted = output_of(old.eval(), tokens, options)
        picture = old.attention_map(tokens, **options) if maps else None
    old.train(training)
    output = (output_of(new, tokens, options) - wanted).square().mean() / wanted.square().mean().clamp(min=1e-12)
    if picture is None:
        return output, output.new_zeros(())
    return output, (new.attention_map(tokens, **options) - picture).square().mean() / picture.square().mean()


def _save(path: Path, modules: nn.Module, optimizer: torch.optim.Optimizer | None, lesson: _Lesson) -> None:
    """A step may have been cut off in the middle by Ctrl-C: the weights then have one step more than the errors, which
    does no harm."""
    tensors = {f"module.{name}": t.contiguous().clone() for name, t in modules.state_dict().items()}
    state = {} if optimizer is None else optimizer.state_dict()["state"]
    for number, values in state.items():
        tensors |= {f"optimizer.{number}.{key}": torch.as_tensor(value) for key, value in values.items()}
    note = {name: value for name, value in vars(lesson).items() if name != "fitted"}
    write_tensors(path, tensors | lesson.fitted, note)


def _gone_on_with(path: Path, layers: list[int], modules: nn.Module, optimizer: torch.optim.Optimizer) -> _Lesson:
    tensors, note = _read(path)
    # once they were means
    errors: list[list[float]] = [step if isinstance(step, list) else [step] * len(layers) for step in note["errors"]]
    try:
        _restore(tensors, modules, optimizer)
        if any(len(step) != len(layers) for step in errors):
            raise ValueError(f"it has not the errors of {len(layers)} layers")
    except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise _does_not_fit(path, error) from None
    before = {name: tensor for name, tensor in tensors.items() if name.startswith("fitted.")}
    return _Lesson(layers, errors, note.get("seconds", 0.0), note.get("fitting", 0.0), before)


def _restore(tensors: dict[str, Tensor], modules: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    modules.load_state_dict(inside(tensors, "module."))
    parameters = list(modules.parameters())
    state: dict[int, Values] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".", 2)
            if tensor.dim() and tensor.shape != parameters[int(number)].shape:
                raise ValueError(f"{name} has another shape than its weight")
            state.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
