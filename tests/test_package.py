"""The wheel, in a virtual environment of its own: the tutorial from its first line to its last, on a folder of images."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tests.test_docs import ROOT, commands
from vixformer.data.base import Part
from vixformer.data.mini import FashionMini

LONG = {"run": "runs/RUN", "tuning": "--budget 60s", "budget": "--budget 4m", "seeds": "--seeds 3", "distill": "--distill 100"}
"""What the tutorial has and the test has less of."""
PER_CLASS, TEST_PER_CLASS, CLASSES = 60, 12, 3


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of what is committed."""
    folder = tmp_path_factory.mktemp("built")
    run("git", "clone", "--quiet", ROOT, folder / "source", cwd=folder)
    run(sys.executable, "-m", "build", "--outdir", folder / "dist", folder / "source", cwd=folder)
    return folder / "dist"


@pytest.mark.slow
def test_what_is_in_the_packages(built: Path) -> None:
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"vixformer/ops/native/linear.c", "vixformer/data/embedded/fashion-mini-train.xz"} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]
    assert wheel.stat().st_size < 5 * 2**20
    with tarfile.open(source) as archive:
        assert any(name.endswith("/tests/test_package.py") for name in archive.getnames())
    assert re.match(r"vixformer-\d+\.\d+", wheel.name)  # git's, or the fallback where there are no tags


@pytest.mark.slow
def test_the_tutorial_in_a_clean_environment(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    (wheel,) = built.glob("*.whl")
    run(programs / "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", f"{wheel}[export,report,serve]", cwd=tmp_path)
    write_photos(tmp_path / "photos")
    (tmp_path / "pretrained").symlink_to(ROOT / "pretrained")
    steps = {line.split()[1]: line for line in commands(ROOT / "docs" / "tutorial.md")}
    assert list(steps) == ["finetune", "compare", "report", "convert", "predict", "serve", "export"]

    def vix(line: str, **changed: str) -> str:
        for old, new in changed.items():
            line = line.replace(LONG[old], new)
        return run(programs / "vix", *shlex.split(line)[1:], cwd=tmp_path)

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
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "tutorial.md").read_text(), re.DOTALL | re.MULTILINE)
    found = json.loads(run(programs / "python", "-c", script, code.replace("runs/RUN", name), *sorted(expected), cwd=tmp_path))
    assert found == expected
    (source,) = built.glob("*.tar.gz")
    before = run(programs / "vix", "--version", cwd=tmp_path)
    run(programs / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", source, cwd=tmp_path)
    assert run(programs / "vix", "--version", cwd=tmp_path) == before
    run(programs / "vix", *shlex.split("train quick/performer-relu --data.fraction 0.02 --train.epochs 1 --out from-source"), cwd=tmp_path)


def write_photos(folder: Path) -> None:
    """Clothes of the first classes, as files in a folder a class."""
    source = FashionMini(folder)
    parts: tuple[tuple[Part, int], ...] = (("train", PER_CLASS), ("test", TEST_PER_CLASS))
    for part, count in parts:
        images = source.read(part)
        for label in range(CLASSES):
            target = folder / part / f"class-{label}"
            target.mkdir(parents=True)
            for i, row in enumerate(images.rows[images.labels == label][:count].tolist()):
                Image.fromarray(images.pixels[row, 0].numpy()).resize((40 + i, 56)).save(target / f"{i}.png")
