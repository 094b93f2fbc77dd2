"""Run folders: what they are called, what is in them, and tables over many of them."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from vixformer.attention.layout import Layer, parse
from vixformer.backbones.backbone import BEST, NO_ATTENTION, WEIGHTS_FILE, BackboneConfig
from vixformer.config import Recipe, read_named_recipe
from vixformer.jsonfile import Values, read_json, read_json_lines
from vixformer.plugins import missing, used_in
from vixformer.registry import fitted
from vixformer.results.schema import MOST, Epoch, check_summary

PROTOCOL = "0.1.0"
"""Changes when the same recipe would give other results, so that runs from before are not taken for those of today."""
RECIPE, HISTORY, SUMMARY, LAST = "recipe.json", "history.jsonl", "summary.json", "last.safetensors"


def content(recipe: Recipe, digest: str | None) -> str:
    """What a run is known by: the resolved recipe with its seed, the data, the version. Where files lie or logs go does
    not count.

    `digest` is None for runs whose data are not known.
    """
    values = recipe.to_dict()
    values["data"].pop("root")
    values["train"].pop("device")
    values["train"].pop("loggers")
    if values["train"]["weights"] is not None:
        values["train"]["weights"] = _weights_content(Path(values["train"]["weights"]))
    plugins = sorted(used_in(values).values())
    known = [values, digest, PROTOCOL, *([plugins] if plugins else [])]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]


def _weights_content(folder: Path) -> str:
    """A finished run's name says what is in it, wherever it lies; of other models the weights themselves."""
    found = FOLDER.fullmatch(folder.name)
    if found and found["name"] and found["id"] and ((folder / SUMMARY).exists() or not folder.exists()):
        return folder.name
    for file in (folder / BEST / WEIGHTS_FILE, folder / WEIGHTS_FILE):
        if file.exists():
            return hashlib.sha256(file.read_bytes()).hexdigest()
    return str(folder)


def folder_of(out: Path, name: str, recipe: Recipe, digest: str) -> Path:
    return out / run_name(re.sub(r"\.(json|toml|py)$", "", name), recipe, content(recipe, digest))


def run_name(name: str, recipe: Recipe, known_by: str) -> str:
    fold = "" if recipe.data.folds is None else f"-fold{recipe.data.fold}"
    return f"{flat(name)}-seed{recipe.train.seed}{fold}-{known_by}"


def flat(name: str) -> str:
    """A recipe's name as a part of a folder's."""
    return name.replace("/", "-")


FOLDER = re.compile(r"((?P<name>.+)-)?seed\d+(-fold\d+)?(-(?P<id>[0-9a-f]{12}))?")
"""What `run_name` makes, and `seed0` alone, as kept runs lie. Only older runs, which do not say their name, are named
by it."""


def name_in(folder: str) -> str:
    """NAME of NAME-seed0-0123456789ab; nothing of seed0; all of any other."""
    found = FOLDER.fullmatch(folder)
    return folder if found is None else found["name"] or ""


Repetition = tuple[int, str]
"""The seed of a run, and what says which images it was trained on."""


def repetition(recipe: Recipe) -> Repetition:
    """Runs of two models that share it are a pair. The folds of one split are one repetition: their training images
    overlap."""
    data = recipe.data
    held_out = f"{data.val_fraction} held out" if data.folds is None else f"{data.folds} folds"
    return (
        recipe.train.seed,
        f"{data.name}, {data.fraction} of it, {held_out}, {data.test_fraction} to test on, split {data.split_seed}",
    )


@dataclass(frozen=True)
class Run:
    folder: Path
    """Of a record: its file, and behind that the name that its folder had."""
    recipe: Recipe
    summary: Values | None
    """None while it is not finished."""
    name: str | None = None
    """Of the recipe; None in older runs and those of `vix.train`, where only the folder's name tells."""
    epochs: list[Values] | None = None
    """The history of a record, which has no file of its own."""

    def history(self) -> list[Values]:
        """A line an epoch; of a training that diverged, what is finite of it."""
        if self.epochs is not None:
            return self.epochs
        path = self.folder / HISTORY
        found = read_json_lines(path, finite=False) if path.exists() else []
        epochs = fitted(list[Epoch], found, f"{path} is damaged")
        return [
            {key: value for key, value in epoch.items() if value is not None and abs(value) <= MOST} for epoch in epochs
        ]


def read_run(folder: str | Path) -> Run:
    """Read and check every part of a run: code that has a `Run` can rely on `Summary`."""
    folder = Path(folder)
    if not (folder / RECIPE).exists():
        raise ValueError(f"{folder} is no run folder: it has no {RECIPE}")
    (name, recipe), path = read_named_recipe(folder / RECIPE), folder / SUMMARY
    summary = check_summary(read_json(path, finite=False), str(path)) if path.exists() else None
    try:
        run = checked_run(Run(folder, recipe, summary, name))
    except ValueError as error:
        raise ValueError(f"{error}{missing(read_json(path.parent / RECIPE).get('plugins'))}") from None
    run.history()
    return run


def checked_run(run: Run) -> Run:
    """A run whose attention can be read."""
    try:
        for attention in (run.recipe.model.attention, *([] if run.summary is None else [run.summary["attention"]])):
            layers_of(run.recipe.model, attention)
    except ValueError as error:
        raise ValueError(f"{run.folder}: {error}") from None
    return run


def layers_of(model: BackboneConfig, attention: str) -> list[Layer] | None:
    """One configuration a layer; None of a model without attention."""
    return None if attention == NO_ATTENTION else parse(attention).expand(*model.stage_depths)


def list_runs(out: str | Path, problem: Callable[[str], None] | None = None) -> list[Run]:
    """`problem` gets the error of each run that cannot be read; without it, the first such run is an error."""
    found = []
    for path in sorted(Path(out).glob(f"*/{RECIPE}")):
        try:
            found.append(read_run(path.parent))
        except ValueError as error:
            if problem is None:
                raise
            problem(str(error))
    return found


@dataclass(frozen=True)
class Spread:
    mean: float
    sd: float | None
    """None for a single run."""
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.sd is None else f" ± {self.sd:.2f}")


def spread(values: Iterable[float]) -> Spread:
    values = list(values)
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


def accuracy(summary: Values, part: str = "test") -> float | None:
    """Top-1; of numbers, R2. In per cent."""
    r2 = summary.get(f"{part}_r2")
    return summary.get(f"{part}_top1") if r2 is None else 100 * r2
