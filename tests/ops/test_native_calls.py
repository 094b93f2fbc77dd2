"""Random calls of the compiled kernels, also with the sanitizers of gcc."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.calls import AT_ONCE, CALLS, run, sanitized
from vixformer.ops.native import build


def test_some_calls() -> None:
    assert AT_ONCE / 4 < run(range(AT_ONCE)) < AT_ONCE


gcc = pytest.mark.skipif(
    sys.platform != "linux"
    or shutil.which("gcc") is None
    or "/" not in subprocess.getoutput("gcc -print-file-name=libasan.so"),
    reason="no gcc with sanitizers here",
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sanitized")


@gcc
@pytest.mark.slow
def test_sanitizers_find_nothing(cache: Path) -> None:
    done = sanitized(range(CALLS), cache)
    assert done.returncode == 0, done.stderr[-5000:]
    assert int(done.stdout.split()[0]) > CALLS / 2


PLANTED = {
    "nystrom.c": ("    *which = 0;\n", ""),  # with the comparison of before, no column of NaN is ever chosen
    "exact.c": ("c < wide; c++", "c <= wide + 20000; c++"),
    "local.c": ("y + dy < height", "y + dy < height + 1"),
    "given.c": ("memcpy(to, room, sizeof(float) * m);", "memcpy(to, room, sizeof(float) * (m + 4000));"),
    "along.c": ("multiply(half, rows, d, words(half, r)", "multiply(half, rows + 500, d, words(half, r)"),
    "linear.c": ("pair_floats(x, d, rows, d, room)", "pair_floats(x, d, rows + 3000, d, room)"),  # in bfloat16
    "tokens.c": ("c < d; c += W) sum +=", "c < d + 16000; c += W) sum +="),
    "bfloat.h": ("for (int r = 0; r < all; r += 2, to += d)", "for (int r = 0; r < all + 3000; r += 2, to += d)"),
}


@gcc
@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_the_harness_finds_planted_bugs(name: str, cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "native"
    shutil.copytree(build.HERE, folder)
    before, after = PLANTED[name]
    text = (folder / name).read_text().replace(" || column != column", "")
    assert before in text
    (folder / name).write_text(text.replace(before, after))
    done = sanitized(range(600), cache, folder)
    assert "AddressSanitizer" in done.stderr, done.stdout
