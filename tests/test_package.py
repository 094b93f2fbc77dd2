"""The wheels, in a virtual environment of their own: kernels without a compiler, and the tutorial from its first line
to its last."""

from __future__ import annotations

import json
import platform
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.datasets import CLASSES, TEST_PER_CLASS, write_photos
from tests.support.pages import ROOT, commands
from tools import wheels
from vixformer.ops.native import targets

LONG = {
    "run": "runs/RUN",
    "tuning": "--budget 60s",
    "budget": "--budget 4m",
    "seeds": "--seeds 3",
    "distill": "--distill 100",
}
"""What the tutorial has and the test has less of."""
MACHINES = [machine for machine in wheels.MACHINES if shutil.which(wheels.compiler(machine))]


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels and the sdist of what is committed."""
    folder = tmp_path_factory.mktemp("built")
    run("git", "clone", "--quiet", ROOT, folder / "source", cwd=folder)
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "source", cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    for machine in MACHINES:
        wheels.made(wheel, machine)
    return folder / "dist"


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment with the wheel that pip chooses, and nothing else of this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True)
    found = [
        "--find-links",
        built,
        "--constraint",
        ROOT / "constraints.txt",
        f"vixformer[export,report,serve]=={version(built)}",
    ]
    run(folder / "venv" / "bin" / "pip", "install", "--quiet", *found, cwd=folder)
    return folder / "venv" / "bin"


def version(built: Path) -> str:
    (wheel,) = built.glob("*-py3-none-any.whl")
    return wheel.name.split("-")[1]


@pytest.mark.slow
def test_what_is_in_the_packages(built: Path) -> None:
    (plain,), (source,) = built.glob("*-py3-none-any.whl"), built.glob("*.tar.gz")
    assert {path.stem.rpartition("-")[2] for path in built.glob("*.whl")} == {
        "any",
        *map(wheels.platform_tag, MACHINES),
    }
    for wheel in built.glob("*.whl"):
        names = set(zipfile.ZipFile(wheel).namelist())
        assert {"vixformer/ops/native/linear.c", "vixformer/data/embedded/fashion-mini-train.xz"} <= names
        assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]
        assert wheel.stat().st_size < 5 * 2**20
        libraries = {Path(name).stem for name in names if name.endswith(".so")}
        assert libraries == {name for name, target in targets.TARGETS.items() if wheel.stem.endswith(target.machine)}
    with tarfile.open(source) as archive:
        assert any(name.endswith("/tests/test_package.py") for name in archive.getnames())
    assert re.match(r"vixformer-\d+\.\d+", plain.name)  # git's, or the fallback where there are no tags


KERNELS_RUN = r"""
import re, sys
from pathlib import Path
import torch
from vixformer import create_attention
from vixformer.ops import native
x = torch.randn(2, 50, 64, requires_grad=True)
for word in ("softmax", "performer", "nystrom(landmarks=16)", "linformer(rank=16)", "prism"):
    before = native.calls()
    create_attention(word, dim=64, num_heads=2, num_tokens=50)(x).sum().backward()
    assert native.calls() >= before + 2, word
runtimes = set(re.findall(r"\S*/lib(?:gomp|omp|iomp)[^/\s]*", Path("/proc/self/maps").read_text()))
assert len(runtimes) == 1, runtimes
print(native.status().instructions)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no wheel with kernels for this machine was made")
def test_kernels_run_without_a_compiler(built: Path, programs: Path, tmp_path: Path) -> None:
    again = ["--quiet", "--no-deps", "--force-reinstall", "--find-links", built, f"vixformer=={version(built)}"]
    run(programs / "pip", "install", *again, cwd=tmp_path)  # after a test that installed the source
    alone = {"PATH": str(programs), "HOME": str(tmp_path), "OMP_NUM_THREADS": "2"}
    assert shutil.which("cc", path=alone["PATH"]) is None
    best, *others = targets.possible()
    for wish in ("", best, *others):
        environment = alone | ({"VIX_NATIVE": wish} if wish else {})
        said = run(programs / "vix", "doctor", cwd=tmp_path, env=environment)
        assert re.search(r"^kernels +on$", said, re.MULTILINE), said
        assert f"{wish or best} in the compiled kernels" in said
        assert f"{wish or best}.so (from the wheel)" in said
        assert run(programs / "python", "-c", KERNELS_RUN, cwd=tmp_path, env=environment).strip() == (wish or best)
    assert not (tmp_path / ".cache").exists()


def _served(program: Path, line: str, folder: Path) -> str:
    """The models of the page that this command serves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([program, *shlex.split(line)[1:], "--port", str(port)], cwd=folder)
    try:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/models") as answer:
                    return answer.read().decode()
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the server does not answer")
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slow
def test_the_tutorial_in_a_clean_environment(built: Path, programs: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    (tmp_path / "pretrained").symlink_to(ROOT / "pretrained")
    steps = {line.split()[1]: line for line in commands(ROOT / "docs" / "tutorial.md")}
    assert list(steps) == ["data", "finetune", "compare", "report", "convert", "predict", "serve", "export"]

    def vix(line: str, **changed: str) -> str:
        for old, new in changed.items():
            line = line.replace(LONG[old], new)
        return run(programs / "vix", *shlex.split(line)[1:], cwd=tmp_path)

    assert f"images of {CLASSES} classes; " in vix(steps["data"])
    said = vix(steps["finetune"], tuning="--budget 20s")
    assert "test top-1" in said
    assert "Next: vix predict runs/cifar10-on-photos-" in said
    table = vix(steps["compare"], budget="--budget 2m", seeds="--seeds 1")
    assert all(name in table for name in ("exact", "lens", "performer-relu", "nystrom"))
    vix(steps["report"])
    assert "performer-relu" in (tmp_path / "report.html").read_text()
    (exact,) = (tmp_path / "runs").glob("quick-exact-*")
    vix(steps["convert"], run=str(exact), distill="--distill 10")
    (converted,) = (path for path in (tmp_path / "runs").glob("*/summary.json") if "-to-" in path.parent.name)
    name = str(converted.parent.relative_to(tmp_path))
    shutil.copy(next((tmp_path / "photos" / "test").glob("*/*.png")), tmp_path / "holiday.jpg")
    assert vix(steps["predict"], run=name).startswith("image")
    assert name.removeprefix("runs/") in _served(programs / "vix", steps["serve"], tmp_path)
    vix(steps["export"], run=name)
    answers = run(programs / "vix", "predict", name, "photos/test", "--json", "--top", "1", cwd=tmp_path)
    expected = {line["image"]: line["top"][0]["label"] for line in map(json.loads, answers.splitlines())}
    assert len(expected) == TEST_PER_CLASS * CLASSES
    script = """
import contextlib, io, json, sys
found = {}
for path in sys.argv[2:]:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(sys.argv[1].replace("holiday.jpg", path))
    found[path] = said.getvalue().strip()
assert "torch" not in sys.modules
print(json.dumps(found))
"""
    (code,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "tutorial.md").read_text(), re.DOTALL | re.MULTILINE
    )
    found = json.loads(
        run(programs / "python", "-c", script, code.replace("runs/RUN", name), *sorted(expected), cwd=tmp_path)
    )
    assert found == expected
    (source,) = built.glob("*.tar.gz")
    before = run(programs / "vix", "--version", cwd=tmp_path)
    run(programs / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", source, cwd=tmp_path)
    assert run(programs / "vix", "--version", cwd=tmp_path) == before
    run(
        programs / "vix",
        *shlex.split("train quick/performer-relu --data.fraction 0.02 --train.epochs 1 --out from-source"),
        cwd=tmp_path,
    )
