"""Every kind of file that is read, damaged in many ways: what comes of it is a result or a sentence, soon, and within some memory.

`python -m tests.fuzz.test_files 1000 [KIND...]` counts faults, as docs/reliability.md has them.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from optuna.trial import create_trial
from PIL import Image

from tests.data.test_pictures import encoded
from tests.data.test_readers import Evil, write_cifar, write_mnist
from tests.fuzz.damage import bytes_of, gzip_of, json_of, lines_of, safetensors_of, sqlite_of
from tests.support.runs import recorded, write_run
from tests.training.test_loop import tiny
from vixformer.commands import convert, runs
from vixformer.commands.report import benches_in
from vixformer.config import read_recipe
from vixformer.conversion.choose import Chosen, LayerCost, Point
from vixformer.conversion.distill import distill, part_of_lesson, seconds_of
from vixformer.conversion.swap import convert as convert_model
from vixformer.data.cifar import CIFAR10
from vixformer.data.download import _unpack  # pyright: ignore[reportPrivateUsage]
from vixformer.data.folder import Folder, TinyImageNet
from vixformer.data.mini import FashionMini
from vixformer.data.mnist import MNIST
from vixformer.data.picture import open_picture
from vixformer.data.preprocess import Preprocessing
from vixformer.experiments import compare
from vixformer.experiments.search import study as studies
from vixformer.experiments.search.plan import Plan
from vixformer.experiments.search.space import read_space
from vixformer.experiments.search.storage import close_storage, open_storage
from vixformer.export.card import card
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

SECONDS, WAIT = 10, 120
"""Of the processor for one file, and by the clock: other work may be running."""
BYTES = 2 * 2**30
"""More than the process has before."""
TEST = FashionMini(Path()).read("test")
KEPT = recorded("hybrid/mnist/first-relu-64")[0]
Damage = Callable[[bytes, Random], bytes]


class HangError(BaseException):
    pass


@dataclass(frozen=True)
class Kind:
    make: Callable[[Path], None]
    """Writes good files into a folder."""
    use: Callable[[Path], None]
    """Reads that folder as the product does."""
    damages: dict[str, tuple[Damage, ...]]
    """Of the files, by a pattern of their names: one file and one way is picked each time."""
    together: bool = False
    """What is damaged is a run, `odd`, and many of them are read beside a good one."""


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
    layer = dict(layer=1, before="softmax", after="hedgehog", error=0.2, q_rms=1.0, k_rms=1.0, kept=["a"], new=[], dropped=[], warning=None)
    conversion = {"layers": [layer], "notes": [], "parent": "x", "stages": [{"stage": "parent", "test_top1": 9.0}], "warnings": ["w"]}
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


def _packed(folder: Path) -> None:
    write_mnist(folder, count=3, packed=True)


def _binary(folder: Path) -> None:
    write_cifar(folder, CIFAR10, python=False, count=3)


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
    return State(model, make_optimizer(model, recipe.train), torch.amp.GradScaler("cpu", enabled=False), order, augment, redraw)


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
    if THOROUGH:
        train(tiny(fraction=0.02, data={"test_fraction": 0.05}), folder, resume=True)
    else:
        _state().load(folder / "last.safetensors")


THOROUGH = False
"""Go on with the training, and answer whole requests."""


def _choices(folder: Path) -> None:
    costs = tuple(LayerCost(i, 0.1, 0.2, -1.0, 2.0, 1.0) for i in range(2))
    curve = tuple(Point(tuple(range(k)), "softmax", 0.1, 90.0, 5.0 - k, Ratio(1 - k / 5, 0.9 - k / 5, 1.1 - k / 5)) for k in range(3))
    (folder / "choice.json").write_text(json.dumps(asdict(Chosen(costs, curve))))


def _choose(folder: Path) -> None:
    read: Any = getattr(convert, "read_choice", lambda path, _: json.loads(path.read_text()))
    with contextlib.redirect_stdout(io.StringIO()):
        convert._show_choice(read(folder / "choice.json", 2), 2)  # pyright: ignore[reportPrivateUsage]


def _budgets(folder: Path) -> None:
    (folder / "budgets.json").write_text(json.dumps({"a": {"epochs": 3, "fraction": 0.5}, "b": {"epochs": 1, "fraction": 1.0}}))


def _spend(folder: Path) -> None:
    read: Any = getattr(compare, "read_budgets", lambda path: json.loads(path.read_text()))
    for values in read(folder / "budgets.json").values():
        compare.Cut(**values).applied(tiny(epochs=4))


def _spaces(folder: Path) -> None:
    space = {
        "train.lr": {"log": [1e-4, 1e-2]}, "train.batch_size": [16, 32], "layers": ["softmax", "hedgehog"], "model.embed_dim": "{width}",
        "width": [16, 32], "optimizer": {"adam": {"train.optimizer": "adam"}, "sgd": {"train.optimizer": "sgd"}},
    }  # fmt: skip
    (folder / "space.json").write_text(json.dumps(space))


def _search(folder: Path) -> None:
    space, recipe = read_space(str(folder / "space.json")), tiny()
    space.check(recipe)
    space.size(2)
    first = {name: domain.low if hasattr(domain, "low") else domain.values[0] for name, domain in space.variables(2).items()}  # pyright: ignore
    space.applied(recipe, first)
    with contextlib.suppress(ValueError):  # of ranges there is none
        list(islice(space.grid(2), 20))


def _study(folder: Path, where: str | None = None) -> None:
    store = open_storage(where, folder)
    study = studies.opened(_plan(), store)
    distributions = studies._distributions(_plan())  # pyright: ignore[reportPrivateUsage]
    for value in (1e-3, 2e-3):
        attributes = {"attention": "softmax", "folders": ["a"]}
        study.add_trial(create_trial(params={"train.lr": value}, distributions=distributions, value=value, user_attrs=attributes))
    close_storage(store)


def _journal(folder: Path) -> str:
    return f"journal:{folder / 'study.log'}"


def _plan() -> Plan:
    return Plan(name="study", recipe=tiny(), space=read_space("train.lr=1e-4..1e-2:log"), trials=2, sampler="random", pruner="none")


def _join(folder: Path, where: str | None = None) -> None:
    store = open_storage(where, folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(studies, "OPENING", 0.1)  # nobody is filling it
            studies.found(studies.opened(_plan(), store), _plan())
    finally:
        close_storage(store)


def _benches(folder: Path) -> None:
    machine = {"device": "cpu", "processor": "x", "threads": 1, "torch": "2"}
    row = {"attention": "softmax", "batch": 8, "time": {"min": 1.0, "median": 1.1, "sd": 0.1, "count": 9}}
    rows = {"machine": machine, "sizes": {"dim": 8}, "rows": [{**row, "tokens": n} for n in (65, 257)]}
    probes = [{"tokens": n, "ratio": 0.5, "low": 0.4, "high": 0.6} for n in (65, 257)]
    crossings = {"machine": machine, "sizes": {}, "against": "x", "crossings": [{"attention": "softmax", "probes": probes}]}
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

    if THOROUGH:
        all_pictures(collect([folder], {}, live=True).groups)
    with TestClient(create_app([folder]), base_url="http://127.0.0.1") as client:
        assert client.get("/api/report").status_code == 200
        known = client.get("/api/models").json()
        picture = encoded(Image.new("L", (28, 28), 90))
        for name in [model["name"] for model in known]:
            answer = client.post("/api/predict", params={"model": name}, content=picture, headers={"content-type": "image/png"})
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


PICTURES = (("png", "PNG"), ("jpg", "JPEG"), ("gif", "GIF"), ("webp", "WEBP"), ("bmp", "BMP"), ("tiff", "TIFF"), ("ppm", "PPM"))


def _images(folder: Path) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8))
    for part in ("train", "test"):
        for name in ("a", "b"):
            (folder / part / name).mkdir(parents=True)
            for ending, form in PICTURES:
                (folder / part / name / f"x.{ending}").write_bytes(encoded(noise, form))


def _folder(folder: Path) -> None:
    with contextlib.suppress(ValueError):
        for path in sorted((folder / "train" / "a").iterdir()):
            open_picture(path.read_bytes(), 1)
    source = Folder(folder)
    source.size = (8, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        source.read("train")


def _tiny_imagenet(folder: Path) -> None:
    home = folder / "tiny-imagenet-200"
    picture = encoded(Image.new("RGB", (64, 64), "red"), "JPEG")
    for place in ("train/n01/images", "train/n02/images", "val/images"):
        (home / place).mkdir(parents=True)
        (home / place / "a.JPEG").write_bytes(picture)
    (home / "wnids.txt").write_text("n01\nn02\n")
    (home / "words.txt").write_text("n01\tfish, one\nn02\tbird\n")
    (home / "val" / "val_annotations.txt").write_text("a.JPEG\tn02\t0\t0\t1\t1\n")


def _read_tiny_imagenet(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        _both(TinyImageNet(folder))


def _both(source: Any) -> None:
    """One part with a fault does not keep the other from being tried."""
    with contextlib.suppress(ValueError):
        source.read("train")
    source.read("test")


def _pickles(folder: Path) -> None:
    write_cifar(folder, CIFAR10, python=True, count=3)
    evil = {b"data": Evil(folder / "ran"), b"labels": [Evil(folder / "ran")]}
    (folder / CIFAR10.python / "data_batch_1").write_bytes(pickle.dumps(evil, protocol=2))


def _harmless(folder: Path) -> None:
    try:
        _both(CIFAR10(folder))
    finally:
        assert not (folder / "ran").exists()


def _archives(folder: Path) -> None:
    (folder / "x").mkdir()
    (folder / "x" / "inside").write_bytes(bytes(range(256)) * 4)
    with tarfile.open(folder / "a.tar", "w") as archive:
        archive.add(folder / "x", "x")
        archive.add(folder / "x" / "inside", "../outside")
    (folder / "a.tar.gz").write_bytes(gzip.compress((folder / "a.tar").read_bytes()))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "x" / "inside", "x/inside")
        archive.write(folder / "x" / "inside", "../outside")


def _extract(folder: Path) -> None:
    for name in ("a.tar.gz", "a.tar", "a.zip"):
        target = folder / f"to-{name}"
        target.mkdir(exist_ok=True)
        with contextlib.suppress(ValueError, OSError):
            _unpack(folder / name, target)
        assert not (folder / "outside").exists()


JSON, RAW = (json_of, json_of, json_of, bytes_of), (bytes_of,)
TENSORS = (safetensors_of, safetensors_of, bytes_of)
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
    "search space": Kind(_spaces, _search, {"space.json": JSON}),
    "study.db": Kind(_study, _join, {"study.db": (sqlite_of, sqlite_of, bytes_of)}),
    "journal of a study": Kind(lambda f: _study(f, _journal(f)), lambda f: _join(f, _journal(f)), {"study.log": (lines_of, bytes_of)}),
    "bench JSON": Kind(_benches, _plot, {"*.json": JSON}),
    "served folder": Kind(
        _runs, _serve, {"*.json*": (bytes_of,), "[rs]*.json": JSON, "best/*.json": JSON, "best/*.safetensors": TENSORS}, together=True
    ),
    "image folder": Kind(_images, _folder, {"t*/*/*": RAW}),
    "Tiny ImageNet": Kind(_tiny_imagenet, _read_tiny_imagenet, {"*/*.txt": RAW, "*/val/*.txt": RAW}),
    "MNIST": Kind(_packed, lambda f: _both(MNIST(f)), {"MNIST/raw/*": (gzip_of, bytes_of)}),
    "CIFAR binary": Kind(_binary, lambda f: _both(CIFAR10(f)), {"*/*.bin": RAW}),
    "CIFAR pickle": Kind(_pickles, _harmless, {"*/*_batch*": RAW}),
    "archive": Kind(_archives, _extract, {"a.*": RAW}),
}


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Memory and time of what is inside."""

    def late(*_: object) -> None:
        raise HangError(f"more than {SECONDS} s of the processor, or {WAIT} s in all")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    clocks = ((signal.ITIMER_PROF, signal.SIGPROF, SECONDS), (signal.ITIMER_REAL, signal.SIGALRM, WAIT))
    old = [signal.signal(sign, late) for _, sign, _ in clocks]
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + BYTES, hard))
    for clock, _, seconds in clocks:
        signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        for (clock, sign, _), handler in zip(clocks, old, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(sign, handler)
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def faults(name: str, tries: int, folder: Path) -> list[str]:
    """Of so many damaged files, those that ended in anything but a result or a sentence."""
    kind, found = KINDS[name], []
    folder.mkdir()
    kind.make(folder)
    kind.use(folder)  # which is right, and may compile kernels
    for first in range(0, tries, TOGETHER if kind.together else 1):
        numbers = range(first, min(tries, first + (TOGETHER if kind.together else 1)))
        trouble = _trouble(kind, name, folder, numbers)
        if trouble and len(numbers) > 1:
            found += [told for n in numbers if (told := _trouble(kind, name, folder, [n]))] or [f"together {trouble}"]
        elif trouble:
            found.append(trouble)
    return found


TOGETHER = 20


def _trouble(kind: Kind, name: str, good: Path, numbers: Sequence[int]) -> str:
    with tempfile.TemporaryDirectory() as place:
        folder, damaged = Path(place) / "files", ""
        if kind.together:
            shutil.copytree(good / "good", folder / "good")
            for number in numbers:
                shutil.copytree(good / "odd", folder / f"odd{number}")
                damaged = _damage(kind, folder / f"odd{number}", Random(f"{name} {number}"))
        else:
            shutil.copytree(good, folder)
            damaged = _damage(kind, folder, Random(f"{name} {numbers[0]}"))
        try:
            with limited():
                kind.use(folder)
        except (ValueError, OSError) as error:
            return "" if not kind.together else f"{name} {numbers[0]} ({damaged}): {error}"
        except (Exception, HangError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = ([frame for frame in frames if "/vixformer/" in frame.filename] or frames)[-1]
            return f"{name} {numbers[0]} ({damaged}): {type(error).__name__}: {str(error)[:150]} in {place.filename}:{place.lineno}"
        return ""


def _damage(kind: Kind, folder: Path, random: Random) -> str:
    choices = [(path, ways) for pattern, ways in kind.damages.items() for path in sorted(folder.glob(pattern)) if path.is_file()]
    path, ways = random.choice(choices)
    path.write_bytes(random.choice(ways)(path.read_bytes(), random))
    return path.name


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_a_sentence(name: str, tmp_path: Path) -> None:
    assert faults(name, 20, tmp_path / "files") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_thousand_damaged_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "THOROUGH", True)
    assert faults(name, 1000, tmp_path / "files") == []


def main() -> None:
    global THOROUGH
    THOROUGH = True
    tries, *names = sys.argv[1:]
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    for name in names or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            found = faults(name, int(tries), Path(folder) / "files")
            print(f"{name}: {len(found)} of {tries}", flush=True)
            for line in found:
                print(f"    {line}", flush=True)


if __name__ == "__main__":
    main()
