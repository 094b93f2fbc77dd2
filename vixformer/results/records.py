"""Records: finished runs as lines of JSON, one file a family of recipes, so that the results of several machines can be
kept in git.

A record holds the recipe, what pages, tables and figures show of the run, and the conditions under which it was
measured. `run_of` gives back the `Run` without its weights. Lines may come in any order, and twice, as git's union
merge leaves them.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from vixformer.config import Recipe, recipe_from_dict
from vixformer.jsonfile import Values, parse_json, read_limited
from vixformer.registry import fitted
from vixformer.results.runs import HISTORY, Run, checked_run, content, run_name
from vixformer.results.schema import AVERAGES, Count, check_summary
from vixformer.writing import waiting, write_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ENDING = ".jsonl"
LOCK = ".lock"
DIGITS, CURVE_DIGITS, SECONDS_DIGITS = 7, 4, 5
"""Significant digits of a run's numbers, of losses and parameters by epoch, and of the seconds of an epoch."""
PER_CENT = ("_top1", "_top5")
"""Endings of what is kept exactly of a run, and with four decimals by epoch: a rounded share of images would round a
mean another way."""
MOST_CLASSES = 20
"""The largest confusion matrix that is kept, which is the largest that a report draws."""
BUDGET = ("epochs", "train_images", "test_images")
MACHINE = ("device", "processor", "threads", "torch")
KERNELS = ("kernels", "instructions")

Text = str | None


class Budget(TypedDict):
    epochs: Count
    train_images: Count
    test_images: Count


class Conditions(TypedDict):
    """None where a run does not say."""

    device: Text
    processor: Text
    threads: Count | None
    torch: Text
    kernels: bool | None
    """Whether compiled kernels ran."""
    instructions: Text
    """The instruction set that they were compiled for."""
    precision: str
    code: Text


class Matrix(TypedDict):
    """What the test images of each class were taken for."""

    names: list[str]
    confusion: list[list[Count]]


class Counts(TypedDict):
    """Of each class the test images, the images taken for it, and the hits among these. A large matrix would say little
    more."""

    names: list[str]
    support: list[Count]
    predicted: list[Count]
    hits: list[Count]


class Record(TypedDict):
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    """Of the content: recipe, data, version."""
    name: Annotated[str, Field(pattern=r"^\w[\w.-]*(/\w[\w.-]*)*$")]
    """Of the recipe."""
    seed: Count
    split: Count
    """The seed of the split."""
    fold: Count | None
    digest: Text
    """Of the data; None where the run does not say."""
    recipe: dict[str, Values]
    """Fields that differ from the defaults of their classes, so that a changed recipe never changes what a record
    says."""
    budget: Budget
    summary: Values
    classes: NotRequired[Matrix | Counts]
    curve: dict[str, list[float | None]]
    """A number an epoch of each column of the history."""
    conditions: Conditions


def record_of(run: Run, name: str, digest: str | None = None) -> Record:
    """Of a finished run. `digest` is of its data, where its summary does not say it."""
    if run.summary is None:
        raise ValueError(f"{run.folder} is not finished: only finished runs have a record")
    summary, recipe = dict(run.summary), run.recipe
    digest = summary.pop("data_digest", digest)
    machine = summary.pop("machine", {})
    for key in ("seed", "data"):  # the recipe's
        summary.pop(key, None)
    found: Record = {
        "id": content(recipe, digest),
        "name": name,
        "seed": recipe.train.seed,
        "split": recipe.data.split_seed,
        "fold": None if recipe.data.folds is None else recipe.data.fold,
        "digest": digest,
        "recipe": {},
        "budget": Budget(**{key: summary.pop(key) for key in BUDGET}),
        "summary": {},
        "curve": _curve(run.history()),
        "conditions": Conditions(
            **{key: machine.get(key) for key in (*MACHINE, *KERNELS)},
            precision=recipe.train.precision,
            code=summary.pop("code", None),
        ),
    }
    scores, matrix = summary.pop("per_class", None), summary.pop("confusion", None)
    if scores:
        found["classes"] = _counted(scores, matrix)
    if recipe.train.weights is not None:  # where it lay says nothing elsewhere
        parent = Path(recipe.train.weights).name
        recipe = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, weights=parent))
        if "conversion" in summary:
            summary["conversion"] = {**summary["conversion"], "parent": parent}
    return {**found, "recipe": _stated(recipe), "summary": _rounded(summary)}


def run_of(record: Record, where: Path) -> Run:
    """The run that a record was made of; `where` is the record's file, which its name is put behind."""
    parts = {part: dict(record["recipe"].get(part, {})) for part in ("data", "model", "train")}
    parts["data"] |= {"split_seed": record["split"]} | ({} if record["fold"] is None else {"fold": record["fold"]})
    parts["train"] |= {"seed": record["seed"], "precision": record["conditions"]["precision"]}
    place = f"{where}: record {record['id']}"
    try:
        recipe = recipe_from_dict(parts, "its recipe")
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    summary = {"data": recipe.data.name, "seed": record["seed"], **record["budget"], **record["summary"]}
    conditions = record["conditions"]
    summary |= {
        key: value
        for key, value in (("code", conditions["code"]), ("data_digest", record["digest"]))
        if value is not None
    }
    if conditions["processor"] is not None:
        known = MACHINE if conditions["kernels"] is None else (*MACHINE, *KERNELS)
        summary["machine"] = {key: conditions[key] for key in known}
    if "classes" in record:
        summary |= _scores(record["classes"])
    names = list(record["curve"])
    epochs = [
        {"epoch": number, **{key: value for key, value in zip(names, values, strict=True) if value is not None}}
        for number, values in enumerate(zip(*record["curve"].values(), strict=True), 1)
    ]
    folder = where / run_name(record["name"], recipe, record["id"])
    return checked_run(Run(folder, recipe, check_summary(summary, place), record["name"], epochs))


def family(name: str) -> str:
    return name.partition("/")[0]


def record_files(place: Path, deep: bool = False) -> list[Path]:
    """A file of records, or those in a folder. The history of a run ends like them."""
    if place.is_file():
        return [place] if place.suffix == ENDING else []
    return sorted(path for path in (place.rglob if deep else place.glob)(f"*{ENDING}") if path.name != HISTORY)


def read_records(place: Path, problem: Callable[[str], None] | None = None) -> list[Record]:
    """Of a file, or of the files in a folder: each content once, in the order of names and seeds.

    `problem` gets the error of each line that cannot be read; without it, the first one is an error.
    """
    return list(_together(record for path in record_files(place) for record in _read(path, problem)).values())


def recorded_runs(place: Path, problem: Callable[[str], None] | None = None, *, deep: bool = False) -> list[Run]:
    """What is recorded in a file, or in the files of a folder, as runs."""
    found = []
    for path in record_files(place, deep):
        for record in read_records(path, problem):
            try:
                found.append(run_of(record, path))
            except ValueError as error:
                if problem is None:
                    raise
                problem(str(error))
    return found


def add_records(folder: Path, records: Iterable[Record]) -> int:
    """How many were new. Content that is there is left as it is; several processes may add at once."""
    families: dict[str, list[Record]] = {}
    for record in records:
        families.setdefault(family(record["name"]), []).append(record)
    folder.mkdir(parents=True, exist_ok=True)
    added = 0
    with waiting(folder / LOCK):
        for name, new in families.items():
            path = folder / f"{name}{ENDING}"
            old = _together(_read(path, None)) if path.exists() else {}
            merged = _together([*old.values(), *(record for record in new if record["id"] not in old)])
            added += len(merged) - len(old)
            write_text(path, "".join(_line(record) + "\n" for record in merged.values()))
    return added


def _read(path: Path, problem: Callable[[str], None] | None) -> list[Record]:
    found, odd = [], []
    for number, line in enumerate(read_limited(path).splitlines(), 1):
        where = f"{path}, line {number},"
        try:
            record = fitted(Record, parse_json(line, where), f"{where} is no record")
            if len({len(values) for values in record["curve"].values()}) > 1:
                raise ValueError(f"{where} is no record: the columns of its curve should have the same length")
            if "classes" in record and len(_lengths(record["classes"])) > 1:
                raise ValueError(f"{where} is no record: its classes should have as many counts as names")
            found.append(record)
        except ValueError as error:
            if problem is None:
                raise
            odd.append(str(error))
    for error in odd if found else odd[:1]:  # a file of something else is named once
        assert problem is not None
        problem(error)
    return found


def _lengths(classes: Matrix | Counts) -> set[int]:
    if "confusion" in classes:
        return {len(classes["names"]), len(classes["confusion"]), *map(len, classes["confusion"])}
    return {len(classes["names"]), len(classes["support"]), len(classes["predicted"]), len(classes["hits"])}


def _together(records: Iterable[Record]) -> dict[str, Record]:
    """By id. Of two that say different things of one content, always the same one stays."""
    found: dict[str, Record] = {}
    for record in sorted(
        records, key=lambda r: (r["name"].split("/"), r["seed"], r["split"], r["fold"] or 0, r["id"], _line(r))
    ):
        found.setdefault(record["id"], record)
    return found


def _line(record: Record) -> str:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def _stated(recipe: Recipe) -> dict[str, Values]:
    """Without what has a field of its own in the record, and without where files are."""
    model = recipe.model
    own = {"data": ("root", "split_seed", "fold"), "model": (), "train": ("seed", "precision", "loggers")}
    sections = {"data": recipe.data, "model": model, "train": recipe.train}
    found = {part: _not_default(section, own[part]) for part, section in sections.items()}
    return {**found, "model": {"name": model.owner.name, **found["model"]}}


def _not_default(section: DataclassInstance, own: Iterable[str]) -> Values:
    values = {field: getattr(section, field.name) for field in dataclasses.fields(section) if field.name not in own}
    return {field.name: value for field, value in values.items() if value != field.default}


def _rounded(value: object, digits: int = DIGITS) -> Any:
    """What is not finite becomes None."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        exact = {
            key
            for key, one in value.items()
            if isinstance(one, float) and key.endswith(PER_CENT) and math.isfinite(one)
        }
        return {key: one if key in exact else _rounded(one, digits) for key, one in value.items()}
    return [_rounded(one, digits) for one in value] if isinstance(value, list | tuple) else value


def _curve(history: list[Values]) -> dict[str, list[float | None]]:
    columns = dict.fromkeys(key for epoch in history for key in epoch if key != "epoch")
    return {
        key: [None if (value := epoch.get(key)) is None else _of_an_epoch(key, value) for epoch in history]
        for key in columns
    }


def _of_an_epoch(key: str, value: float) -> float:
    if key.endswith(PER_CENT):
        return round(value, 4)
    return _rounded(value, SECONDS_DIGITS if key.endswith("seconds") else CURVE_DIGITS)


def _counted(scores: Mapping[str, Mapping[str, float]], matrix: list[list[int]] | None) -> Matrix | Counts:
    """Counts of images, from which precision, recall and F1 follow exactly."""
    names = [name for name in scores if name not in AVERAGES]
    if matrix is not None and len(matrix) <= MOST_CLASSES:
        return {"names": names, "confusion": matrix}
    support = [round(scores[name]["support"]) for name in names]
    hits = [round(scores[name]["recall"] * count) for name, count in zip(names, support, strict=True)]
    # where there is no hit, precision and F1 are zero whatever was predicted
    predicted = [round(hit / scores[name]["precision"]) if hit else 0 for name, hit in zip(names, hits, strict=True)]
    return {"names": names, "support": support, "predicted": predicted, "hits": hits}


def _scores(classes: Matrix | Counts) -> Values:
    """`per_class` of a summary, and `confusion` where it was kept."""
    if "confusion" in classes:
        matrix = classes["confusion"]
        hits = [row[i] for i, row in enumerate(matrix)]
        counts = [sum(row) for row in matrix], [sum(column) for column in zip(*matrix, strict=True)], hits
    else:
        matrix, counts = None, (classes["support"], classes["predicted"], classes["hits"])
    rows = []
    for support, predicted, hits in zip(*counts, strict=True):
        f1 = 2 * hits / (predicted + support) if predicted + support else 0.0
        precision, recall = hits / predicted if predicted else 0.0, hits / support if support else 0.0
        rows.append({"precision": precision, "recall": recall, "f1-score": f1, "support": float(support)})
    images = sum(row["support"] for row in rows)
    keys = ("precision", "recall", "f1-score")
    macro = {key: sum(row[key] for row in rows) / max(len(rows), 1) for key in keys}
    weighted = {key: sum(row[key] * row["support"] for row in rows) / max(images, 1) for key in keys}
    averages = {"macro avg": {**macro, "support": images}, "weighted avg": {**weighted, "support": images}}
    found = {"per_class": dict(zip(classes["names"], rows, strict=True)) | averages}
    return found if matrix is None else {**found, "confusion": matrix}
