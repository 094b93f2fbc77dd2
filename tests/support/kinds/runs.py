"""Runs and what lies beside them, as commands write and read them."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from tests.support.damage import bytes_of, lines_of
from tests.support.kinds.kind import JSON, TENSORS, TEST, Kind, thorough
from tests.support.pictures import encoded
from tests.support.recipes import tiny
from tests.support.runs import recorded, write_run
from vixformer.commands import convert, runs
from vixformer.commands.report import benches_in
from vixformer.config import read_recipe
from vixformer.conversion.choose import Chosen, LayerCost, Point
from vixformer.conversion.distill import distill, part_of_lesson, seconds_of
from vixformer.conversion.swap import convert as convert_model
from vixformer.data.preprocess import Preprocessing
from vixformer.experiments import compare
from vixformer.export.push import card
from vixformer.measure.latency import Ratio
from vixformer.notes import Note
from vixformer.report.collect import collect
from vixformer.report.maps import looks
from vixformer.report.table import FORMS
from vixformer.results.predictor import Predictor
from vixformer.results.records import add_records, read_records, record_of
from vixformer.results.runs import list_runs
from vixformer.results.timings import Session, inference_ratio, keep_session
from vixformer.training.loop import train
from vixformer.training.optim import make_optimizer
from vixformer.training.state import State

KEPT = recorded("hybrid/mnist/first-relu-64")[0]


def _run(folder: Path, name: str = "odd", attention: str = "first(performer(kernel=relu, features=8))") -> Path:
    """As a training leaves it, with weights that were not trained."""
    recipe, run = tiny(attention=attention, fraction=0.02), folder / name
    (run / "best").mkdir(parents=True)
    model: Any = recipe.build(TEST)
    model.save_pretrained(run / "best")
    classes = TEST.classes
    preprocessing = Preprocessing(classes=classes, channels=1, stored=(28, 28), size=(28, 28), mean=(0.3,), std=(0.4,))
    preprocessing.save(run / "best")
    summary = KEPT.summary or {}
    scores = [value for key, value in summary["per_class"].items() if not key.endswith("avg")]
    averages = {key: value for key, value in summary["per_class"].items() if key.endswith("avg")}
    layer = dict(
        layer=1,
        before="softmax",
        after="hedgehog",
        error=0.2,
        q_rms=1.0,
        k_rms=1.0,
        kept=["a"],
        new=[],
        dropped=[],
        warning=None,
    )
    conversion = {
        "layers": [layer],
        "notes": [],
        "parent": "x",
        "stages": [{"stage": "parent", "test_top1": 9.0}],
        "warnings": ["w"],
    }
    said = {
        "attention": model.attention_expression(),
        "data": "fashion-mini",
        "train_others": 0.1,
        "train_cores": 4,
        "per_class": dict(zip(classes, scores, strict=True)) | averages,
    }
    write_run(replace(KEPT, recipe=recipe, summary=summary | said | {"conversion": conversion}), run)
    return run


def _runs(folder: Path) -> None:
    _run(folder)
    shutil.copytree(folder / "odd", folder / "good")


def _one(folder: Path) -> None:
    _run(folder)


def _report(folder: Path) -> None:
    found = collect([folder], {}, live=True)
    told = found.to_dict()
    json.dumps(told, allow_nan=False)
    shown = [run.folder.name for group in found.groups for run in group.runs]
    assert "good" in shown
    assert len(shown) + len(found.unfinished) + len(found.damaged) == len(list(folder.glob("*/recipe.json")))
    for form in FORMS.values():
        form(found.groups)
    with contextlib.redirect_stdout(io.StringIO()):
        runs.run(runs.Options(folder=folder))
    for run in _readable(folder):
        if run.summary and "conversion" in run.summary:
            with contextlib.redirect_stdout(io.StringIO()):
                convert._show_conversion(run.summary)  # pyright: ignore[reportPrivateUsage]


def _readable(folder: Path) -> list[Any]:
    with contextlib.suppress(ValueError):
        return list_runs(folder)
    return []


def _recipes(folder: Path) -> None:
    _report(folder)
    for path in folder.glob("odd*/recipe.json"):
        with contextlib.suppress(ValueError):
            read_recipe(path).build(TEST)


def _ask(folder: Path) -> None:
    model = Predictor.load(folder / "best")
    picture = Image.new("L", (28, 28), 90)
    model([picture])
    looks(model.model, model.preprocessing([picture])[0])
    card(folder, "x", "mit")


def _state() -> State:
    recipe = tiny(fraction=0.02)
    model: Any = recipe.build(TEST)
    order, augment, redraw = (torch.Generator().manual_seed(i) for i in range(3))
    return State(
        model, make_optimizer(model, recipe.train), torch.amp.GradScaler("cpu", enabled=False), order, augment, redraw
    )


def _checkpoint(folder: Path) -> None:
    state = _state()
    for p in state.model.parameters():
        p.grad = torch.zeros_like(p)
    state.optimizer.step()
    record = {"epoch": 1, "lr": 0.1, "train_loss": 2.0, "train_top1": 9.0, "seconds": 1.0, "evaluation_seconds": 0.1}
    state.epoch, state.steps, state.history = 1, 5, [record | {"val_loss": 2.0, "val_top1": 9.0, "val_top5": 50.0}]
    state.save(folder / "last.safetensors")
    state.model.save_pretrained(folder / "best")


def _resume(folder: Path) -> None:
    if thorough():
        train(tiny(fraction=0.02, data={"test_fraction": 0.05}), folder, resume=True)
    else:
        _state().load(folder / "last.safetensors")


def _choices(folder: Path) -> None:
    costs = tuple(LayerCost(i, 0.1, 0.2, -1.0, 2.0, 1.0) for i in range(2))
    curve = tuple(
        Point(tuple(range(k)), "softmax", 0.1, 90.0, 5.0 - k, Ratio(1 - k / 5, 0.9 - k / 5, 1.1 - k / 5))
        for k in range(3)
    )
    (folder / "choice.json").write_text(json.dumps(asdict(Chosen(costs, curve))))


def _choose(folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        convert._show_choice(convert.read_choice(folder / "choice.json", 2), 2)  # pyright: ignore[reportPrivateUsage]


def _budgets(folder: Path) -> None:
    (folder / "budgets.json").write_text(
        json.dumps({"a": {"epochs": 3, "fraction": 0.5}, "b": {"epochs": 1, "fraction": 1.0}})
    )


def _spend(folder: Path) -> None:
    for cut in compare.known_budgets(folder).values():
        cut.applied(tiny(epochs=4))


def _benches(folder: Path) -> None:
    machine = {"device": "cpu", "processor": "x", "threads": 1, "torch": "2"}
    row = {"attention": "softmax", "batch": 8, "time": {"min": 1.0, "median": 1.1, "sd": 0.1, "count": 9}}
    rows = {"machine": machine, "sizes": {"dim": 8}, "rows": [{**row, "tokens": n} for n in (65, 257)]}
    probes = [{"tokens": n, "ratio": 0.5, "low": 0.4, "high": 0.6} for n in (65, 257)]
    crossings = {
        "machine": machine,
        "sizes": {},
        "against": "x",
        "crossings": [{"attention": "softmax", "probes": probes}],
    }
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "crossings.json").write_text(json.dumps(crossings))


def _plot(folder: Path) -> None:
    for name in ("rows", "crossings"):
        found = collect([], benches_in([str(folder / f"{name}.json")]), live=True)
        json.dumps(found.to_dict(), allow_nan=False)


def _serve(folder: Path) -> None:
    from starlette.testclient import TestClient

    from vixformer.report.pictures import all_pictures
    from vixformer.serve.app import create_app

    if thorough():
        all_pictures(collect([folder], {}, live=True).groups)
    with TestClient(create_app([folder]), base_url="http://127.0.0.1") as client:
        assert client.get("/api/report").status_code == 200
        known = client.get("/api/models").json()
        picture = encoded(Image.new("L", (28, 28), 90))
        for name in [model["name"] for model in known]:
            answer = client.post(
                "/api/predict", params={"model": name}, content=picture, headers={"content-type": "image/png"}
            )
            assert answer.status_code in (200, 503, 507), answer.text
    assert known


def _kept(folder: Path) -> None:
    """Records of two runs, beside a run and what its model's inference took."""
    _runs(folder)
    found = list_runs(folder)
    add_records(folder / "records", [record_of(run, f"own/{run.folder.name}", str(i)) for i, run in enumerate(found)])
    keep_session(folder, Session(1, {}, {}, {run.folder.name: [1.0, 1.1, 1.2, 1.1, 1.0, 1.1] for run in found}))


def _tell(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Note)
        found = collect([folder], {}, live=True)
        json.dumps(found.to_dict(), allow_nan=False)
        for form in FORMS.values():
            form(found.groups)
        if len(found.groups) > 1:
            inference_ratio(*found.groups[:2])
        keep_session(folder, Session(1, {}, {}, {"good": [1.0]}))
    read_records(folder / "records", lambda _: None)
    add_records(folder / "records", read_records(folder / "records")[:1])


def _converted() -> tuple[Any, Any]:
    model: Any = tiny(attention="softmax").build(TEST)
    return model, convert_model(model, "hedgehog")[0]


def _lesson(folder: Path) -> None:
    model, student = _converted()
    path = folder / "teaching.safetensors"

    def stopped(step: int, error: float) -> None:
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        distill(student, model, _batch, steps=2, keep=path, watch=stopped)


def _batch(step: int) -> torch.Tensor:
    return torch.randn(2, 1, 28, 28, generator=torch.Generator().manual_seed(step))


def _teach(folder: Path) -> None:
    path = folder / "teaching.safetensors"
    seconds_of(path)
    model, student = _converted()
    with contextlib.suppress(ValueError):
        part_of_lesson(path, [0], folder / "part.safetensors")
    distill(student, model, _batch, steps=2, keep=path)


KINDS = {
    "recipe.json": Kind(_runs, _recipes, {"recipe.json": JSON}, together=True),
    "summary.json": Kind(_runs, _report, {"summary.json": JSON}, together=True),
    "history.jsonl": Kind(_runs, _report, {"history.jsonl": (lines_of, lines_of, bytes_of)}, together=True),
    "config.json": Kind(_one, lambda f: _ask(f / "odd"), {"odd/best/config.json": JSON}),
    "model.safetensors": Kind(_one, lambda f: _ask(f / "odd"), {"odd/best/model.safetensors": TENSORS}),
    "preprocessing.json": Kind(_one, lambda f: _ask(f / "odd"), {"odd/best/preprocessing.json": JSON}),
    "last.safetensors": Kind(_checkpoint, _resume, {"last.safetensors": TENSORS}),
    "teaching.safetensors": Kind(_lesson, _teach, {"teaching.safetensors": TENSORS}),
    "records": Kind(_kept, _tell, {"records/*.jsonl": (lines_of, lines_of, bytes_of)}),
    "timings.json": Kind(_kept, _tell, {"timings.json": JSON}),
    "choice.json": Kind(_choices, _choose, {"choice.json": JSON}),
    "budgets.json": Kind(_budgets, _spend, {"budgets.json": JSON}),
    "bench JSON": Kind(_benches, _plot, {"*.json": JSON}),
    "served folder": Kind(
        _runs,
        _serve,
        {"*.json*": (bytes_of,), "[rs]*.json": JSON, "best/*.json": JSON, "best/*.safetensors": TENSORS},
        together=True,
    ),
}
