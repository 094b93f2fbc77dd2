"""Runs as figures need them: those that differ in nothing but seed and fold together, with their layout read off their
attention."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from vixformer.attention.kernels.favor import SoftmaxKernel
from vixformer.attention.layout import Layer, is_exact
from vixformer.attention.performer import Performer
from vixformer.attention.softmax import Softmax
from vixformer.backbones.backbone import BackboneConfig
from vixformer.config import Recipe
from vixformer.jsonfile import Values
from vixformer.results.evidence import averaged
from vixformer.results.records import record_files, recorded_runs
from vixformer.results.runs import (
    RECIPE,
    Repetition,
    Run,
    Spread,
    accuracy,
    flat,
    layers_of,
    name_in,
    read_run,
    repetition,
    spread,
)

LAYOUTS = ("standard", "all", "alternate", "first", "last")


@dataclass(frozen=True)
class Placement:
    """Where efficient layers are: five ways have names."""

    place: str
    kernel: str | None = None
    features: int | None = None


@dataclass(frozen=True)
class Group:
    """Runs alike but for seed and fold."""

    name: str
    runs: tuple[Run, ...]

    @property
    def first(self) -> Values:
        return self.runs[0].summary or {}

    @property
    def attention(self) -> str:
        return self.first.get("attention", self.runs[0].recipe.model.attention)

    @property
    def data(self) -> str:
        return self.runs[0].recipe.data.shown

    @property
    def target(self) -> str:
        """What number is predicted, if one is."""
        return self.runs[0].recipe.data.target

    @property
    def protocol(self) -> str:
        """In words: what runs must have in common to be compared."""
        recipe = self.runs[0].recipe
        begun = "" if recipe.train.weights is None else ", from a trained model"
        part = "" if recipe.data.fraction == 1 else f" on {recipe.data.fraction:.0%} of the training images"
        folds = "" if recipe.data.folds is None else f", {recipe.data.folds} folds"
        return f"{self.data}, {counted(recipe.train.epochs, 'epoch')}{part}{folds}{begun}"

    @property
    def short(self) -> str:
        """The protocol as a part of a file's name."""
        data, train = self.runs[0].recipe.data, self.runs[0].recipe.train
        part = "" if data.fraction == 1 else f"-{data.fraction:.0%}".replace("%", "pc")
        folds = "" if data.folds is None else f"-{data.folds}folds"
        return f"{data.name}-{train.epochs}ep{part}{folds}" + ("" if train.weights is None else "-tuned")

    def values(self, key: str) -> list[float]:
        return [value for run in self.runs if (value := (run.summary or {}).get(key)) is not None]

    def spread(self, key: str) -> Spread | None:
        values = self.values(key)
        return spread(values) if values else None

    def accuracy(self, part: str = "test") -> Spread | None:
        """Of top-1, or of R2 where numbers are predicted, in per cent."""
        values = [value for run in self.runs if (value := accuracy(run.summary or {}, part)) is not None]
        return spread(values) if values else None

    def repetitions(self) -> dict[Repetition, float]:
        """One value a seed and split, the mean of its folds."""
        found = ((repetition(run.recipe), accuracy(run.summary or {})) for run in self.runs)
        return averaged((which, value) for which, value in found if value is not None)

    def histories(self) -> list[list[Values]]:
        return [run.history() for run in self.runs]

    @property
    def exact(self) -> bool:
        return is_exact(self.attention)

    def layout(self) -> Placement | None:
        layers = layers_of(self.runs[0].recipe.model, self.attention)
        return None if layers is None else layout_of(layers)


def layout_of(layers: Sequence[Layer]) -> Placement | None:
    """None where more than one mechanism stands beside exact attention, or none of the five ways fits."""
    efficient = [not isinstance(layer, Softmax.Config) for layer in layers]
    kinds = {layer for layer, is_efficient in zip(layers, efficient, strict=True) if is_efficient}
    if not kinds:
        return Placement("standard")
    if len(kinds) > 1:
        return None
    half = len(layers) // 2
    patterns = {
        "all": [True] * len(layers),
        "first": [i < half for i in range(len(layers))],  # in front of alternate, which is the same for two layers
        "last": [i >= len(layers) - half for i in range(len(layers))],
        "alternate": [i % 2 == 0 for i in range(len(layers))],
    }
    place = next((name for name, pattern in patterns.items() if pattern == efficient), None)
    if place is None:
        return None
    (kind,) = kinds
    if not isinstance(kind, Performer.Config):
        return Placement(place, kind.owner.name)
    kernel = "softmax" if isinstance(kind.kernel, SoftmaxKernel.Config) else kind.kernel.owner.name
    return Placement(place, kernel, kind.features if isinstance(kind.features, int) else None)


@dataclass(frozen=True)
class Found:
    groups: list[Group]
    """In the order of their names."""
    unfinished: list[Run]
    damaged: list[str]
    """A sentence for each run that cannot be read."""


def find_runs(folders: Iterable[Path]) -> Found:
    """In these folders, however deep, or these runs and files of records themselves. One that is damaged does not hide
    the others."""
    runs, damaged, names = [], [], {}
    seen: set[Path] = set()
    for folder in folders:
        if not folder.is_dir() and not record_files(folder):
            raise ValueError(f"{folder} is no folder here: give run folders, folders of them, or records")
        for run in recorded_runs(folder, damaged.append, deep=True):
            if run.folder.resolve() not in seen:
                seen.add(run.folder.resolve())
                runs.append(run)
                names[run.folder] = run.name
        for path in sorted(folder.rglob(RECIPE)):
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            try:
                run = read_run(path.parent)
                runs.append(run)
                names[run.folder] = _name(run, folder)
            except ValueError as error:
                damaged.append(str(error))
    found: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        if run.recipe.data.target:
            damaged.append(f"{run.folder} predicts numbers, which are not compared here: vix runs lists it")
        elif run.summary is not None and not run.recipe.train.trial:
            found.setdefault(names[run.folder], {}).setdefault(alike(run), []).append(run)
    groups = []
    for name, kinds in found.items():
        firsts = [group[0] for group in kinds.values()]
        for group in kinds.values():
            told = "" if len(firsts) == 1 else f" ({_what(group[0], firsts)})"
            groups.append(Group(name + told, tuple(sorted(group, key=lambda run: run.recipe.train.seed))))
    return Found(sorted(groups, key=lambda group: group.name), [run for run in runs if run.summary is None], damaged)


def counted(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _name(run: Run, folder: Path) -> str:
    """Of an older run that of its folder, or A/NAME of A/NAME/seed0, as kept runs lie."""
    inside = run.folder.relative_to(folder).parent.as_posix()
    name = flat(run.name or "") or name_in(run.folder.absolute().name)
    return name or (inside if inside != "." else run.folder.absolute().parent.name)


def some_groups(found: Found, folders: Sequence[Path]) -> list[Group]:
    """Those with a finished run, of which there must be one."""
    if not found.groups:
        why = (
            f": {found.damaged[0]}"
            if found.damaged
            else f"; {len(found.unfinished)} are not finished"
            if found.unfinished
            else ""
        )
        raise ValueError(f"there is no finished run in {', '.join(map(str, folders)) or 'what was given'}{why}")
    return found.groups


def alike(run: Run) -> str:
    """The recipe without what is of a single run."""
    return json.dumps(_fields(run.recipe), sort_keys=True)


def _what(run: Run, beside: Sequence[Run]) -> str:
    """What tells a run apart from others of its name."""
    mine, *others = (_fields(one.recipe) for one in (run, *(one for one in beside if _shortly(one) == _shortly(run))))
    differs = [
        f"{key.partition('.')[2]} {value}"
        for key, value in mine.items()
        if any(other.get(key) != value for other in others)
    ]
    return ", ".join([_shortly(run), *differs])


def _shortly(run: Run) -> str:
    recipe = run.recipe
    return f"{recipe.model.attention}, {counted(recipe.train.epochs, 'epoch')} of {recipe.data.fraction:.0%}"


def _fields(recipe: Recipe) -> Values:
    """But for those that are of a single run."""
    own = {"seed", "split_seed", "weights", "fold", "root"}
    parts = recipe.to_dict(whole=True)
    return {f"{part}.{key}": value for part, values in parts.items() for key, value in values.items() if key not in own}


def twin(group: Group, groups: Sequence[Group]) -> Group | None:
    """The exact attention to compare with: of the same protocol and backbone, and of these the one whose recipe differs
    in least else."""
    same = [g for g in groups if g.exact and g.protocol == group.protocol and type(_model(g)) is type(_model(group))]
    return min(same, key=lambda g: len(differing(group, g)), default=None)


def differing(a: Group, b: Group) -> list[str]:
    """Fields of their recipes in which they differ, but for attention and what is of a single run."""
    ours, theirs = _but_attention(a), _but_attention(b)
    return [key.split(".")[1] for key in ours if ours[key] != theirs.get(key)]


def by_protocol(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """Accuracies on different images, or after longer training, are not compared."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.protocol, []).append(group)
    return found


def comparable(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """Sets whose recipes differ in attention alone, by what the names in a set have in common."""
    sets: dict[str, list[Group]] = {}
    for group in groups:
        sets.setdefault(json.dumps(_but_attention(group)), []).append(group)
    named: dict[str, list[Group]] = {}
    for some in sets.values():
        words = zip(*(re.split("[/-]", group.name) for group in some), strict=False)
        name = "-".join(word[0] for word in takewhile(lambda word: len(set(word)) == 1, words)) or some[0].data
        named[name if name not in named else f"{name}-{len(named)}"] = some
    return named


def _but_attention(group: Group) -> Values:
    return {
        key: value
        for key, value in _fields(group.runs[0].recipe).items()
        if key not in ("model.attention", "train.distill")
    }


def _model(group: Group) -> BackboneConfig:
    return group.runs[0].recipe.model
