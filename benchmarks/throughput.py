"""How fast a user's whole path is: `vix predict` on JPEGs, `vix serve` under several clients, and the first epoch of a
folder of JPEGs against a later one. `python -m benchmarks.throughput --write docs/shipping.md` takes about four
minutes; `--images` and `--train` ask for less."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

import torch
from PIL import Image

from benchmarks.page import alone, put
from vixformer.data.ahead import ahead
from vixformer.data.cache import decoded
from vixformer.data.folder import list_images
from vixformer.measure.latency import interleaved
from vixformer.measure.machine import processor
from vixformer.options import first_paragraph
from vixformer.results.predictor import Predictor
from vixformer.room import cores

MODEL = Path("pretrained/cifar10")
SIDE, LARGE, LARGE_IMAGES = 224, (4000, 3000), 40
BATCH, CLIENTS, REQUESTS = 64, 8, 1000
RECIPE, RESIZE = "quick/exact", 64
Row = tuple[str, float, int, str]
"""What was measured, its seconds, the number of images, and where the time goes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--photos", type=Path, default=Path(os.environ.get("VIX_DATA", "data")) / "flowers")
    parser.add_argument("--images", type=int, default=1000, help="for vix predict")
    parser.add_argument("--train", type=int, default=10_000, help="images of the folder to train on")
    parser.add_argument("--rounds", type=int, default=3, help="of each command; the fastest counts")
    parser.add_argument("--write", type=Path, help="put the table between the markers of this page")
    options = parser.parse_args()
    photos = list_images(options.photos.rglob("*"))
    with tempfile.TemporaryDirectory() as made:
        some, large, many = Path(made) / "some", Path(made) / "large", Path(made) / "many"
        _make(photos[: options.images], some, (SIDE, SIDE), options.images)
        _make(photos, large, LARGE, min(LARGE_IMAGES, options.images))
        _make(photos, many, (SIDE, SIDE), options.train)
        with alone(options.write is not None, meanwhile=False):  # what is measured starts processes that leave this one
            rows = [
                *_predicted(some, large, options.rounds),
                *_served(some, options.rounds),
                *_trained(many, Path(made)),
            ]
    head = (
        f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}; `{MODEL}`; JPEGs of"
        f" {SIDE} x {SIDE} pixels, and large ones of {LARGE[0]:,} x {LARGE[1]:,}."
    )
    lines = [head, "", "| what | seconds | images a second | where the time goes |", "|---|--:|--:|---|"]
    lines += [f"| {what} | {s:.1f} | {n / s:,.0f} | {where} |" for what, s, n, where in rows]
    print("\n".join(lines))
    if options.write:
        put(options.write, "throughput", "\n".join(lines))


def _make(photos: Sequence[Path], folder: Path, size: tuple[int, int], count: int) -> None:
    """JPEGs of this size, one folder a class. A photograph that is taken again is another part of it."""

    def write(number: int) -> None:
        photo, again = photos[number % len(photos)], number // len(photos)
        (folder / photo.parent.name).mkdir(parents=True, exist_ok=True)
        with Image.open(photo) as image:
            image = image.convert("RGB")
            box = (8 * again, 8 * again, image.width, image.height)
            image.resize(size, Image.Resampling.BILINEAR, box).save(
                folder / photo.parent.name / f"{number}.jpg", quality=90
            )

    for _ in ahead(write, range(count)):
        pass


def _vix(*words: str | Path) -> float:
    """Seconds of a command, from its start to its end."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "vixformer", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return time.perf_counter() - began


def _predicted(some: Path, large: Path, rounds: int) -> list[Row]:
    starting = min(_vix("predict", MODEL, next(some.rglob("*.jpg")), "--json") for _ in range(rounds))
    model = _model(BATCH)
    rows: list[Row] = []
    for what, folder in (("`vix predict`", some), ("`vix predict`, large JPEGs", large)):
        files = list_images(folder.rglob("*"))
        seconds = min(_vix("predict", MODEL, folder, "--json") for _ in range(rounds))
        decoding = _decoding(files)
        where = (
            f"start {starting:.1f} s; one image alone: decoding {1e3 * decoding:.2f} ms on {cores()} cores, model"
            f" {1e3 * model:.2f} ms in batches of {BATCH}; both by turns would take"
            f" {starting + len(files) * (decoding + model):.1f} s"
        )
        rows.append((what, seconds, len(files), where))
    return rows


def _model(batch: int) -> float:
    """Seconds an image of the model alone."""
    predictor = Predictor.load(MODEL)
    images = predictor.preprocessing.batch(torch.zeros(batch, 3, *predictor.preprocessing.stored, dtype=torch.uint8))
    return interleaved({"model": lambda: predictor.logits(images)}, seconds=2.0)["model"].median / batch / 1e3


def _decoding(files: Sequence[Path]) -> float:
    """Seconds an image of Pillow alone, whole JPEGs, on all cores: what there is without decoding at a smaller size."""

    def whole(path: Path) -> None:
        with Image.open(path) as image:
            image.convert("RGB")

    began = time.perf_counter()
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(whole, files):
            pass
    return (time.perf_counter() - began) / len(files)


def _served(some: Path, rounds: int) -> list[Row]:
    command = [sys.executable, "-m", "vixformer", "serve", str(MODEL.parent), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(next(line for line in server.stdout if "http://" in line).partition("127.0.0.1:")[2].split("/")[0])
        pictures = [path.read_bytes() for path in list_images(some.rglob("*"))]
        known = json.loads(_answer(_connected(port), "GET", "/api/models"))
        name = next(model["name"] for model in known if model["data"] == MODEL.name)
        address = f"/api/predict?maps=false&top=1&model={name}"

        def load(clients: int) -> float:
            mine = local()

            def ask(number: int) -> None:
                if not hasattr(mine, "connection"):
                    mine.connection = _connected(port)
                _answer(mine.connection, "POST", address, pictures[number % len(pictures)])

            with ThreadPoolExecutor(clients) as pool:
                list(pool.map(ask, range(4 * clients)))
                began = time.perf_counter()
                list(pool.map(ask, range(min(REQUESTS, len(pictures)))))
                return time.perf_counter() - began

        one, several = (min(load(clients) for _ in range(rounds)) for clients in (1, CLIENTS))
    finally:
        server.terminate()
        server.wait()
    count = min(REQUESTS, len(pictures))
    alone_one, batch = _model(1), _model(CLIENTS)
    each = f"model {1e3 * alone_one:.1f} ms of {1e3 * one / count:.1f} ms a request"
    together = f"model {1e3 * batch:.1f} ms of {1e3 * several / count:.1f} ms a request, in batches of {CLIENTS}"
    return [
        ("`vix serve`, 1 client", one, count, each),
        (f"`vix serve`, {CLIENTS} clients", several, count, together),
    ]


def _connected(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


def _answer(connection: http.client.HTTPConnection, method: str, address: str, body: bytes | None = None) -> bytes:
    connection.request(method, address, body, {"Content-Type": "image/jpeg"} if body else {})
    reply = connection.getresponse()
    data = reply.read()
    assert reply.status == 200, data
    return data


def _trained(many: Path, made: Path) -> list[Row]:
    files = list_images(many.rglob("*"))
    os.environ["XDG_CACHE_HOME"] = str(made / "cache")
    floor, began = len(files) * _decoding(files), time.perf_counter()
    decoded(files, (RESIZE, RESIZE))
    decoding = time.perf_counter() - began
    words = ["train", RECIPE, "--data", many, "--data.resize", str(RESIZE), "--train.epochs", "2"]
    _vix(*words, "--train.no-measure", "--out", made / "runs")
    (history,) = (made / "runs").rglob("history.jsonl")
    epochs = [json.loads(line)["seconds"] for line in history.read_text().splitlines()]
    count = json.loads((history.parent / "summary.json").read_text())["train_images"]
    where = (
        f"decoding {len(files):,} JPEGs once: {decoding:.1f} s (whole JPEGs by Pillow alone, all cores: {floor:.1f} s)"
    )
    return [
        (f"`vix train {RECIPE}`, first epoch at {RESIZE} x {RESIZE}", decoding + epochs[0], count, where),
        ("a later epoch, and every later run", epochs[-1], count, "training alone"),
    ]


if __name__ == "__main__":
    main()
