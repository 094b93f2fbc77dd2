"""The contents of a run, checked once when its files are read, so that figures, tables and sentences can rely on
them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import NotRequired, Required, TypedDict

from vixformer.jsonfile import Values, read_json
from vixformer.registry import fitted

MOST = 1e100
"""Sums and squares of larger numbers overflow."""
Number = Annotated[float, Field(ge=-MOST, le=MOST, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=MOST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
AVERAGES = ("accuracy", "macro avg", "weighted avg")
"""Lines of a class report that are no classes."""

ClassScores = TypedDict("ClassScores", {"precision": Share, "recall": Share, "f1-score": Share, "support": Amount})


class Machine(TypedDict):
    device: str
    processor: str
    threads: Count
    torch: str
    kernels: NotRequired[bool]
    """Whether compiled kernels ran; older runs do not say."""
    instructions: NotRequired[str | None]
    """The instruction set that they were compiled for."""


class ConvertedLayer(TypedDict):
    layer: int
    before: str
    after: str
    error: float | None
    q_rms: float | None
    k_rms: float | None
    kept: list[str]
    new: list[str]
    dropped: list[str]


class Stage(TypedDict, total=False):
    stage: Required[str]
    test_top1: Percent
    val_top1: Percent | None
    seconds: Amount


class Conversion(TypedDict, total=False):
    parent: str | None
    layers: Required[list[ConvertedLayer]]
    stages: Required[list[Stage]]
    warnings: Required[list[str]]
    notes: Required[list[str]]


class Summary(TypedDict, total=False):
    """Of a finished run; whatever else it says is kept."""

    attention: Required[str]
    data: str
    seed: Required[int]
    train_images: Required[Count]
    test_images: Required[Annotated[int, Field(gt=0)]]
    epochs: Required[Count]
    best_epoch: Required[Count]
    train_seconds: Required[Amount]
    seconds_an_epoch: Required[Amount]
    seconds_in_all: Amount
    train_others: Amount | None
    train_cores: Count
    parameters: Required[Count]
    multiply_adds: Count
    kept_bytes: Count
    inference_batch: Count
    inference_ms_mean: Amount
    inference_ms_sd: Amount
    inference_ms_min: Amount
    peak_train_mb: Number | None
    machine: Machine
    code: str
    """The version that ran."""
    data_digest: str
    split_off: str
    """Which images test, where nobody put test images apart."""
    val_top1: Percent | None
    test_top1: Percent
    test_top5: Percent
    target: str
    """The number that is predicted, which has these instead of top-1 and top-5."""
    test_mae: Amount
    test_rmse: Amount
    test_r2: Number
    per_class: dict[str, ClassScores]
    confusion: list[list[Count]]
    conversion: Conversion


Epoch = dict[str, float | None]


def check_summary(value: object, where: str) -> Values:
    """As it was read, not a copy."""
    fitted(Summary, value, f"{where} is damaged")
    assert isinstance(value, dict)
    found: Values = value
    wanted = ("test_mae", "test_rmse", "test_r2") if "target" in found else ("val_top1", "test_top1", "test_top5")
    for name in wanted:
        if name not in found:
            raise ValueError(f"{where} is damaged: {name} is missing")
    if "confusion" in found:
        classes = [name for name in found.get("per_class", {}) if name not in AVERAGES]
        sizes = {len(found["confusion"]), *map(len, found["confusion"])}
        if sizes != {len(classes)}:
            size = len(classes)
            raise ValueError(
                f"{where} is damaged: confusion should be {size} x {size}, because per_class has {size} classes"
            )
    return found


class _Time(TypedDict):
    min: Amount


class _Row(TypedDict):
    attention: str
    tokens: Annotated[int, Field(gt=0)]
    batch: Annotated[int, Field(gt=0)]
    time: _Time


class _Probe(TypedDict):
    tokens: Annotated[int, Field(gt=0)]
    ratio: Positive


class _Crossing(TypedDict):
    attention: str
    probes: list[_Probe]


class _Bench(TypedDict):
    machine: Machine
    sizes: Values


class _Rows(_Bench):
    rows: list[_Row]


class _Crossings(_Bench):
    against: str
    crossings: list[_Crossing]


def read_bench(path: str) -> Values:
    """What `vix bench --json` wrote."""
    value = read_json(path)
    kind: type[_Crossings] | type[_Rows] = _Crossings if isinstance(value, dict) and "crossings" in value else _Rows
    fitted(kind, value, f'{path} is not what "vix bench ... --json {path}" writes')
    return value
