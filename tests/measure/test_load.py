"""Whether other work is noticed, and our own is not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.page import alone, table_command
from tools.timings import measure_time
from vixformer import load_recipe
from vixformer.measure import load
from vixformer.measure.latency import Timing
from vixformer.measure.load import Load, Sample, Watched, watched

linux = pytest.mark.skipif(Sample().busy is None, reason="this system does not say how busy it is")
SPIN = "import time; end = time.time() + {}\nwhile time.time() < end: pass"
QUIET, BUSY = Load(0.1, 2, 0.2), Load(1.9, 2, 9.7)


@pytest.fixture
def spinning() -> Iterator[int]:
    """Both cores busy with processes that are not ours: whoever started them has ended."""
    start = f"import subprocess, sys\nfor _ in range({load.cores()}): "
    start += f"print(subprocess.Popen([sys.executable, '-c', {SPIN.format(20)!r}], stdout=-3, stderr=-3).pid)"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    processes = [int(word) for word in done.stdout.split()]
    yield len(processes)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@linux
def test_other_work_is_noticed(spinning: int) -> None:
    found, until = load.now(), time.monotonic() + 15  # they may take a while to start
    while not found.disturbs(1) and time.monotonic() < until:
        found = load.now()
    assert found.others is not None
    assert found.others > 0.5
    assert found.disturbs(1)
    assert "other work is running" in found.complaint(1)


@linux
def test_other_work_is_noticed_while_we_time(spinning: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "PATIENCE", 0.0)
    with watched() as timing:
        end = time.perf_counter() + 1.0
        while time.perf_counter() < end:
            pass
    assert timing.load.disturbs(1)
    assert "these times are not reliable" in timing.told()


@linux
def test_our_own_work_does_not_count() -> None:
    """Beside a machine that is as busy as it is: what we and our children do must not be added to it."""
    sample = Sample()
    child = subprocess.Popen([sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"])
    began = time.process_time()
    while time.process_time() - began < 0.5:
        pass
    child.wait()
    used = Sample()
    assert used.ours is not None
    assert sample.ours is not None
    assert used.ours - sample.ours > 0.7  # of two processes, however busy the machine is
    assert used.busy is not None
    assert sample.busy is not None
    others = (sample.since().others or 0.0) * (used.at - sample.at)
    assert others <= used.busy - sample.busy - (used.ours - sample.ours) + 0.3


def test_what_disturbs_depends_on_the_threads() -> None:
    half = Load(1.0, 2, 1.0)
    assert [half.disturbs(n) for n in (1, 2)] == [False, True]
    assert [QUIET.disturbs(n) for n in (1, 2)] == [False, False]
    assert [Load(None, 2, 9.0).disturbs(n) for n in (1, 2)] == [False, False]  # unknown is not a complaint
    assert Load(3.0, 64, 3.0).disturbs(32) is False
    assert (
        BUSY.complaint(2)
        == "other work is running (load 9.7 on 2 cores, 1.9 of 2 busy with it): these times are not reliable; try"
        " OMP_NUM_THREADS=1"
    )
    assert BUSY.complaint(1).endswith("these times are not reliable; wait until it is over")
    assert QUIET.complaint(2) == ""


def test_what_is_said_beside_times() -> None:
    steady, unsteady = Timing(1.0, 1.1, 1.1, 0.1, 9), Timing(1.0, 3.2, 3.0, 1.0, 9)
    assert Watched(2, 2, QUIET).told([steady]) == ""
    assert "took over 3.2 times as long as the fastest" in Watched(2, 2, QUIET).told([steady, unsteady])
    assert Watched(1, 2, Load(1.0, 2, 1.0)).told([steady]).startswith("Timed on 1 of 2 threads")
    assert (
        Watched(1, 2, BUSY)
        .told([steady])
        .startswith("Timed on 1 of 2 threads. Other work is running (load 9.7 on 2 cores")
    )


def test_threads_beside_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(load, "waited", lambda _: BUSY)
    torch.set_num_threads(2)
    try:
        with watched() as timing:
            assert (timing.threads, torch.get_num_threads()) == (1, 1)
        with watched(2) as timing:
            assert (timing.threads, torch.get_num_threads()) == (2, 2)  # asked for
        monkeypatch.setattr(load, "waited", lambda _: QUIET)
        with watched() as timing:
            assert (timing.threads, torch.get_num_threads()) == (2, 2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_where_the_system_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(load, "PROC", tmp_path)
    monkeypatch.delattr(os, "getloadavg", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert load.now() == Load(None, os.cpu_count() or 1, None)


def test_nothing_is_published_beside_other_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- t -->\nold\n<!-- end -->\n")
    monkeypatch.setattr("sys.argv", ["bench", "--write", str(page)])
    loads = [BUSY]
    monkeypatch.setattr("benchmarks.page.waited", lambda _: loads[0])
    with pytest.raises(SystemExit) as stop:
        table_command("About.", "t", 1.0, "float32", lambda _: pytest.fail("measured all the same"))
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert (
        said
        == "other work is running (load 9.7 on 2 cores, 1.9 of 2 busy with it): nothing was published; run it again"
        " when it is over\n"
    )
    loads[0] = QUIET
    monkeypatch.setattr(Sample, "since", lambda _: BUSY)  # it began meanwhile
    with pytest.raises(SystemExit):
        table_command("About.", "t", 1.0, "float32", lambda _: ["new"])
    assert "old" in page.read_text()
    monkeypatch.setattr(Sample, "since", lambda _: QUIET)
    table_command("About.", "t", 1.0, "float32", lambda _: ["new"])
    assert "new" in page.read_text()
    with alone():
        pass


def test_no_timing_is_kept_beside_other_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.page.waited", lambda _: BUSY)
    with pytest.raises(SystemExit) as stop:
        measure_time({"quick/exact": load_recipe("quick/exact")}, tmp_path / "times.json", 2, 6, torch.device("cpu"))
    assert stop.value.code == 2
    assert list(tmp_path.iterdir()) == []
