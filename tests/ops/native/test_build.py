"""The cached library of compiled kernels: whatever happened to it, it is loaded whole and nobody else's, or compiled
again."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tests.ops.conftest import QUICK, Cache
from vixformer import create_attention
from vixformer.measure import memory
from vixformer.notes import Note
from vixformer.ops import native
from vixformer.ops.native import build

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look for the library anew, before and after."""
    monkeypatch.setenv("VIX_NATIVE_FLAGS", QUICK)
    build.found.cache_clear()
    yield
    build.found.cache_clear()


def test_it_is_compiled_once_and_leaves_one_file(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(whole.parents[2]))
    before = whole.stat().st_mtime_ns
    assert native.library() is not None
    assert whole.stat().st_mtime_ns == before
    assert {p.name for p in whole.parent.iterdir()} == {whole.name, "lock"}
    assert whole.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_library_is_compiled_again(cache: Cache, share: float) -> None:
    assert cache.load()
    cache.replace(cache.file.read_bytes()[: int(share * cache.file.stat().st_size)])
    assert cache.load()
    assert cache.compilations == 2
    assert cache.load()
    assert cache.compilations == 2


def test_one_changed_byte_is_noticed(cache: Cache) -> None:
    assert cache.load()
    content = bytearray(cache.file.read_bytes())
    content[len(content) // 2] ^= 1
    cache.replace(bytes(content))
    assert cache.load()
    assert cache.compilations == 2


def test_a_library_without_our_functions_is_compiled_again(cache: Cache) -> None:
    assert cache.load()
    file = cache.file
    _plant(cache, "int nothing;")
    assert cache.load()
    assert cache.compilations == 2
    assert cache.file == file


def _plant(cache: Cache, source: str) -> None:
    """Another library, under the name that its content asks for."""
    made, file = cache.log.parent / "made.so", cache.file
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(made)], input=source, text=True, check=True)
    file.unlink()
    made.rename(cache.folder / f"{file.stem.rpartition('-')[0]}-{build._digest(made)}.so")


@pytest.mark.skipif(os.name == "nt", reason="folders have no mode there")
def test_what_others_could_have_planted_is_not_run(cache: Cache, tmp_path: Path) -> None:
    """Its digest too: a folder that others could write to is emptied, and closed."""
    assert cache.load()
    mark = tmp_path / "it ran"
    source = f'#include <fcntl.h>\n__attribute__((constructor)) static void run(void) {{ creat("{mark}", 0600); }}'
    for loose in (cache.folder, cache.folder.parent):
        _plant(cache, source)
        loose.chmod(0o777)
        assert cache.load()
        assert not mark.exists()
        assert loose.stat().st_mode & 0o022 == 0


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder to somebody else"
)
def test_a_folder_of_another_user_is_left_alone(cache: Cache) -> None:
    assert cache.load()
    cache.replace(b"planted")
    os.chown(cache.folder, 12345, -1)
    with pytest.warns(
        UserWarning, match=r"belongs to another user \(uid 12345\)\), so every process compiles them again"
    ):
        assert cache.load()
    assert cache.compilations == 2
    assert cache.file.read_bytes() == b"planted"


def test_a_cache_that_cannot_be_is_no_disaster(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.warns(UserWarning, match="Set XDG_CACHE_HOME to a folder that belongs to you"):
        assert cache.load()


@pytest.mark.skipif(sys.platform != "linux", reason="mounts as Linux does")
def test_a_read_only_home(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    mounted = os.geteuid() == 0  # who may write everywhere
    if mounted and subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", home], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root outside of a container")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(home))
    try:
        with pytest.warns(Note, match="cannot be kept in the cache"):
            assert cache.load()
    finally:
        if mounted:
            subprocess.run(["umount", "-l", home], check=True)
    assert cache.compilations == 1


def test_another_openmp_is_another_library(cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.load()
    other = tmp_path / "libgomp.so.1"
    other.write_text("another version")
    before = build._key(["cc"])
    monkeypatch.setattr(build, "_openmp", lambda: [other])
    assert build._key(["cc"]) != before


@pytest.mark.skipif(FORK is None, reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking where there are threads
def test_ten_cold_processes_compile_once(cache: Cache) -> None:
    assert FORK is not None
    processes = [FORK.Process(target=_load_or_fail, args=(cache,)) for _ in range(10)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 10
    assert cache.compilations == 1
    assert cache.load()


def _load_or_fail(cache: Cache) -> None:
    os._exit(0 if cache.load() else 1)


@pytest.mark.skipif(FORK is None, reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_killed_compilation_leaves_no_folder(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FORK is not None
    with monkeypatch.context() as patch:
        patch.setenv("CC", f"{cache.script} 60")
        process = FORK.Process(target=_load_or_fail, args=(cache,))
        process.start()
        deadline = time.monotonic() + 30
        while not cache.log.exists() or not cache.log.read_text().endswith("\n"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.join()
        with suppress(ProcessLookupError):
            os.kill(int(cache.log.read_text()), signal.SIGKILL)  # the compiler outlives who called it
    assert [p for p in cache.folder.iterdir() if p.is_dir()]
    assert cache.load()
    assert {p.name for p in cache.folder.iterdir()} == {cache.file.name, "lock"}


def test_a_full_disk_is_said_and_it_is_compiled_elsewhere(cache: Cache) -> None:
    """Compiled kernels were silently off."""
    script = cache.script.read_text()
    full = 'case "$*" in *"$XDG_CACHE_HOME"*) echo "as: No space left on device" >&2; exit 1;; esac\n'
    cache.script.write_text(script.replace("\n", f"\n{full}", 1))
    with pytest.warns(Note, match=r"cannot be kept in the cache \(.*No space left on device.*Set XDG_CACHE_HOME"):
        assert cache.load()
    assert not list(cache.folder.glob("*.so"))


def test_the_process_that_measures_memory_does_not_repeat_it(cache: Cache) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache.script)}  # a file
    done = subprocess.run(
        [sys.executable, "-m", memory.__name__], env=environment, input="", capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert cache.compilations == 1


@pytest.mark.parametrize(
    ("setting", "reason", "advice"),
    [
        ({"CC": "no-such-compiler"}, "there is no C compiler named no-such-compiler", "install gcc or clang"),
        ({"CC": "false"}, "false could not compile them (exit status 1)", "set CC to another compiler"),
        ({"CC": 'cc "'}, "CC='cc \"' cannot be read (No closing quotation)", "set CC as in a shell"),
        ({"CC": " "}, "CC=' ' names no C compiler", "set CC to the compiler that you have"),
        ({"CC": "cc", "VIX_NATIVE_FLAGS": "--no-such-flag"}, "cc could not compile them (", "no-such-flag"),
        (
            {"VIX_NATIVE": "fast"},
            "VIX_NATIVE='fast' is unknown",
            "one of 0, native, avx512-bf16, avx512, avx2, neon, or unset it",
        ),
        (
            {"VIX_NATIVE": "avx2"},
            "VIX_NATIVE=avx2 wants instructions that this processor does not have",
            "set it to native, or unset it",
        ),
    ],
)
def test_why_kernels_are_off_is_said_once(setting: dict[str, str], reason: str, advice: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path))
        patch.setattr(build, "possible", lambda: [])  # as on a processor from before 2013
        for key, value in setting.items():
            patch.setenv(key, value)
        with pytest.warns(Note, match="compiled attention kernels are off, so attention is slower: ") as said:
            out = create_attention("nystrom(landmarks=16)", dim=32, num_heads=2)(torch.randn(1, 40, 32))
        assert out.isfinite().all()
        assert len(said) == 1
        status = native.status()
    assert (status.on, status.instructions, status.library) == (False, None, None)
    assert reason in (status.reason or "")
    assert advice in f"{status.reason} {status.advice}"
    assert native.library() is None
    assert not list(tmp_path.rglob("*.so"))


def test_who_switches_them_off_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIX_NATIVE", "0")
    assert native.status() == native.Status(False, reason="the environment variable VIX_NATIVE is 0", advice="unset it")


def test_status_of_kernels_that_are_on(cache: Cache) -> None:
    assert cache.load()
    status = native.status()
    assert status.instructions in ("avx512-bf16", "avx512", "avx2", "avx", "sse2", "sve", "neon", "generic")
    assert (status.on, status.library, status.origin, status.reason) == (True, str(cache.file), "compiled here", None)


@pytest.mark.filterwarnings("ignore::vixformer.notes.Note")
def test_a_failed_compilation_is_remembered_until_something_changes(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = cache.script.read_text()
    cache.script.write_text(good.replace("cp ", "echo it broke: error 7 >&2; exit 1; cp "))
    assert not cache.load()
    assert not cache.load()
    assert cache.compilations == 1
    (log,) = cache.folder.glob("*.log")
    assert "it broke: error 7" in log.read_text()
    assert "it broke: error 7" in (native.status().reason or "")
    assert str(log) in (native.status().advice or "")
    log.unlink()
    assert not cache.load()
    assert cache.compilations == 2
    cache.script.write_text(good)  # another compiler of the same name
    assert cache.load()
    assert cache.compilations == 3


def test_a_library_that_does_not_load_is_compiled_again(cache: Cache) -> None:
    """Its digest is right, so it is no damage: what it needs is gone."""
    assert cache.load()
    made = cache.log.parent / "made.so"
    source = "int needed(void); int needs(void) { return needed(); }"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wl,-z,now", "-x", "c", "-", "-o", str(made)], input=source, text=True, check=True
    )
    file = cache.file
    file.unlink()
    made.rename(cache.folder / f"{file.stem.rpartition('-')[0]}-{build._digest(made)}.so")
    assert cache.load()
    assert cache.compilations == 2
