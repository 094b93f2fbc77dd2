"""How `vix serve` bears load: predictions from several clients at once, some of them nonsense.

python -m benchmarks.serve [--requests 2000 --clients 8]
"""

from __future__ import annotations

import argparse
import io
import os
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import local

import httpx
import numpy as np
from PIL import Image

from benchmarks.page import alone
from vixformer import load_recipe
from vixformer.experiments.compare import compare
from vixformer.options import first_paragraph


def main() -> None:
    parser = argparse.ArgumentParser(description=first_paragraph(__doc__))
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recipes = {name: load_recipe(f"quick/{name}") for name in ("exact", "performer-relu")}
        short = {
            n: replace(r, data=replace(r.data, fraction=0.1), train=replace(r.train, epochs=1))
            for n, r in recipes.items()
        }
        compare(short, Path(folder))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "-m", "vixformer", "serve", folder, "--port", str(port)], stdout=subprocess.DEVNULL
        )
        try:
            with alone(publishes=False):
                _load(f"http://127.0.0.1:{port}", server.pid, asked.requests, asked.clients)
        finally:
            server.terminate()
            server.wait()


def _load(url: str, process: int, requests: int, clients: int) -> None:
    for _ in range(300):
        try:
            models = [model["name"] for model in httpx.get(f"{url}/api/models").json()]
            break
        except httpx.TransportError:
            time.sleep(0.1)
    else:
        raise SystemExit("the server did not start")
    picture = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 96, 3), np.uint8)).save(picture, "PNG")
    data, mine = picture.getvalue(), local()

    def one(i: int) -> tuple[int, float]:
        if not hasattr(mine, "client"):
            mine.client = httpx.Client(timeout=60)
        bad = i % 20 == 0
        began = time.perf_counter()
        params: dict[str, str | list[str]] = {"model": models, "maps": "true" if i % 2 else "false"}
        reply = mine.client.post(
            f"{url}/api/predict",
            params=params,
            content=data[: len(data) // 2] if bad else data,
            headers={"Content-Type": "image/png"},
        )
        return reply.status_code, time.perf_counter() - began

    memory = []
    seconds: list[float] = []
    codes: dict[int, int] = {}
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        for tenth in range(10):
            for code, taken in pool.map(one, range(tenth * requests // 10, (tenth + 1) * requests // 10)):
                codes[code] = codes.get(code, 0) + 1
                seconds.append(taken)
            memory.append(_resident(process))
    whole = time.perf_counter() - began
    seconds.sort()
    print(
        f"{requests} predictions of {len(models)} models by {clients} clients: {requests / whole:.0f} a second; replies"
        f" {codes}"
    )
    print(
        f"median {1e3 * seconds[len(seconds) // 2]:.0f} ms, p99 {1e3 * seconds[int(len(seconds) * 0.99)]:.0f} ms;"
        f" {os.cpu_count()} cores"
    )
    print("resident MiB after each tenth: " + " ".join(f"{m:.0f}" for m in memory))


def _resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
