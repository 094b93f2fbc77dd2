"""Every command that the pages show is run, in a folder that has what they speak of: small images, small runs, little
time."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from PIL import Image

from tests.support.datasets import write_cifar, write_mnist, write_photos, write_tiny
from tests.support.kernels import empty_cache
from tests.support.pages import PAGES, ROOT, commands
from tests.support.plugins import file_of_the_page, forgotten
from vixformer import load_recipe
from vixformer.cli import main
from vixformer.data.cifar import CIFAR10
from vixformer.experiments.search.space import space_from_dict

LESS = {
    r"--budget \w+": "--budget 20s",
    r"--seeds \d+": "--seeds 1",
    r"--folds \d+": "--folds 2",
    r"--trials \d+": "--trials 1",
    r"--(train\.)?epochs \d+": r"--\1epochs 1",
    r"--distill \d+": "--distill 2",
    r"--choose \d+": "--choose 1",
    r"--tokens [\d ]+": "--tokens 17 ",
}
LINES = sorted(
    {line for page in PAGES if page.stem != "commands" for line in commands(page) if not line.startswith("vix serve")}
)
MINUTES = (
    "vix bench",
    "vix search",
    "vix compare",
    "vix train",
    "vix finetune",
    "vix convert",
    "vix advise",
    "vix export",
)
"""Of these one is in every run: test_python_about_a_run_works exports to ONNX."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages take for granted."""
    home = tmp_path_factory.mktemp("world")
    run = home / "trained"
    main(
        [
            "train",
            "quick/exact",
            "--data.fraction",
            "0.05",
            "--train.epochs",
            "1",
            "--train.no-measure",
            "--out",
            str(run),
        ]
    )
    (run,) = run.iterdir()
    for name in ("RUN", "runs/RUN", "runs/FOLDER"):
        shutil.copytree(run, home / name)
    few = ("--seeds", "2", "--data.fraction", "0.05", "--epochs", "1", "--train.no-measure")
    main(["compare", "quick/exact", "quick/fourier", *few, "--out", str(home / "runs")])
    (home / "pretrained").symlink_to(ROOT / "pretrained")
    empty_cache(home / "cache")
    (home / "mymean.py").write_text(file_of_the_page())
    (home / "mine.json").write_text(load_recipe("quick/exact").to_json())
    write_photos(home / "photos")
    for name in ("picture.jpg", "holiday.jpg", "more/one.png", "more/two.png"):
        (home / name).parent.mkdir(exist_ok=True)
        Image.open(home / "photos/test/class-0/0.png").convert("RGB").resize((90, 60)).save(home / name)
    write_mnist(home / "data", count=300)
    write_cifar(home / "data", CIFAR10, python=False, count=60)
    write_tiny(home / "data")
    main(["bench", "attention", "softmax", "--tokens", "17", "--json", str(home / "tokens.json")])
    return home


@pytest.fixture
def inside(world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(world)
    monkeypatch.setenv("VIX_DATA", str(world / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(world / "cache"))
    return world


def shortened(line: str) -> list[str]:
    for long, short in LESS.items():
        line = re.sub(long, short, line)
    return shlex.split(line)[1:]


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.slow] * line.startswith(MINUTES)) for line in LINES]
)
def test_a_command_of_the_pages_works(line: str, inside: Path) -> None:
    with forgotten():
        main(shortened(line))


def test_the_server_of_the_pages_and_what_is_asked_of_it(inside: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (ask,) = re.findall(r"^curl .*$", (ROOT / "docs/reports.md").read_text(), re.MULTILINE)
    shutil.copy("more/one.png", "picture.png")
    server = subprocess.Popen(
        [sys.executable, "-m", "vixformer", "serve", "pretrained", "--port", str(port)], cwd=inside
    )
    try:
        models = _answer(f"http://127.0.0.1:{port}/api/models")
        words = shlex.split(ask.replace("8000", str(port)).replace("NAME", models[0]["name"]))
        if shutil.which("curl") is None:
            pytest.skip("there is no curl")
        said = subprocess.run(["curl", "--silent", *words[1:]], cwd=inside, capture_output=True, text=True, check=True)
        assert len(json.loads(said.stdout)["answers"][0]["top"]) == 5
    finally:
        server.terminate()
        server.wait(30)


def _answer(address: str) -> list[dict[str, str]]:
    for _ in range(600):
        try:
            return httpx.get(address).json()
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


def test_python_about_a_run_works(inside: Path) -> None:
    """What the tutorial does with an exported model, without torch."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/tutorial.md").read_text(), re.DOTALL | re.MULTILINE)
    main(["export", "runs/RUN", "--format", "onnx", "--dynamic-batch"])
    found: dict[str, object] = {}
    exec(code, found)
    assert "torch" not in code
    assert found["logits"].shape == (1, 10)  # pyright: ignore[reportAttributeAccessIssue]


def test_other_blocks_can_be_read() -> None:
    """Shell for machines that are not here, a space in JSON, targets of make."""
    checked, targets = 0, set[str]()
    for page in PAGES:
        for kind, text in re.findall(r"^```(sh|json)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            checked += 1
            if kind == "sh":
                subprocess.run(["bash", "-n"], input=text, text=True, check=True)
            else:
                space_from_dict(json.loads(text))
        for target in re.findall(r"^make (\w[\w-]*)", page.read_text(), re.MULTILINE):
            targets.add(target)
            subprocess.run(
                ["make", "-n", target], cwd=ROOT, check=True, capture_output=True, env={**os.environ, "MAKEFLAGS": ""}
            )
    assert checked > 5
    assert targets
