"""Detect other work on this machine, which makes times worthless, and say so.

Beside other work, one thread takes up to twice as long, and several threads take tens of times as long, because each
waits for all of them. So if other work is running, timing uses one thread, unless the number of threads was given.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from vixformer.jsonfile import Values
from vixformer.measure.latency import Timing
from vixformer.room import cores

WINDOW, PATIENCE = 0.3, 5.0
"""Seconds of one look at the machine, and for how long to wait for other work to end."""
MUCH = 0.25
"""Cores that other work may keep busy: less is what every system does by itself."""
UNSTEADY = 2.0
"""Ratio of median to minimum time above which other work must have disturbed the calls."""
PROC = Path("/proc")


@dataclass(frozen=True)
class Load:
    """What the machine does beside this process and its children."""

    others: float | None
    """Cores that others keep busy, other machines on the same host among them; None where the system does not say."""
    cores: int
    """Those that this process may use."""
    average: float | None
    """The load average of the last minute, this process included; None on Windows."""

    def disturbs(self, threads: int) -> bool:
        """Whether work on this many threads had to share its cores."""
        return self.others is not None and self.others > MUCH and self.others + threads > self.cores + MUCH

    def complaint(self, threads: int) -> str:
        """What to print beside times that were measured with this many threads; empty where nothing disturbed them."""
        if not self.disturbs(threads):
            return ""
        advice = "wait until it is over" if threads == 1 else "try OMP_NUM_THREADS=1"
        return f"{self.running}: these times are not reliable; {advice}"

    @property
    def running(self) -> str:
        average = (
            "" if self.average is None else f"load {self.average:.1f} on {self.cores} core{'s' * (self.cores > 1)}, "
        )
        return f"other work is running ({average}{self.others:.1f} of {self.cores} busy with it)"


class Sample:
    """A moment of the machine, from which `since` tells what others did."""

    def __init__(self) -> None:
        self.at, self.busy, self.ours = time.perf_counter(), _busy(), _ours()

    def since(self) -> Load:
        later = Sample()
        others = None
        if self.busy is not None and later.busy is not None and self.ours is not None and later.ours is not None:
            others = max(0.0, later.busy - self.busy - (later.ours - self.ours)) / max(later.at - self.at, 1e-9)
        return Load(None if others is None else round(others, 2), cores(), _average())


def now(seconds: float = WINDOW) -> Load:
    """During a short time in which this process rests."""
    sample = Sample()
    if sample.busy is not None:
        time.sleep(seconds)
    return sample.since()


def waited(threads: int) -> Load:
    """Wait a little for other work to end."""
    deadline = time.perf_counter() + PATIENCE
    while (found := now()).disturbs(threads) and time.perf_counter() < deadline:
        pass
    return found


@dataclass
class Watched:
    """A timing: its threads, and what others did meanwhile."""

    threads: int
    usual: int
    """Threads that it would have had with nothing else running."""
    load: Load

    def told(self, timings: Iterable[Timing] = ()) -> str:
        """What to print beside the times; empty where they can be trusted."""
        fewer = f"Timed on {self.threads} of {self.usual} threads. " if self.threads < self.usual else ""
        if complaint := self.load.complaint(self.threads):
            return f"{fewer}{complaint[0].upper()}{complaint[1:]}."
        unsteady = max((t.median / t.min for t in timings), default=1.0)
        if unsteady > UNSTEADY:
            return (
                f"{fewer}Half of the calls took over {unsteady:.1f} times as long as the fastest: these times are not"
                " reliable."
            )
        return f"{fewer}With several threads, other work would have disturbed it." if fewer else ""

    def to_dict(self) -> Values:
        return {"threads": self.threads, "load": asdict(self.load)}


@contextmanager
def watched(asked: int | None = None) -> Iterator[Watched]:
    """Time inside: on the threads asked for, or else torch's, or one where other work does not end."""
    usual = torch.get_num_threads()
    before = waited(asked or usual)
    threads = asked or (1 if before.disturbs(usual) else usual)
    found, sample = Watched(threads, asked or usual, before), Sample()
    torch.set_num_threads(threads)
    try:
        yield found
    finally:
        torch.set_num_threads(usual)
        found.load = sample.since()


def _average() -> float | None:
    try:
        return round(os.getloadavg()[0], 1)
    except (AttributeError, OSError):
        return None


def _busy() -> float | None:
    """Seconds that our cores were busy since the machine started, with what its host took from them (steal)."""
    try:
        lines = (PROC / "stat").read_text().splitlines()
        mine = {f"cpu{i}" for i in os.sched_getaffinity(0)}
        found = [[int(word) for word in words] for name, *words in map(str.split, lines) if name in mine]
        return sum(sum(times[:3]) + sum(times[5:8]) for times in found) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None


def _ours() -> float | None:
    """Seconds that this process and all that it started have computed."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    try:
        for path in PROC.glob("[0-9]*/stat"):
            try:
                text = path.read_text()
            except OSError:  # it has just ended
                continue
            words = text.rpartition(")")[2].split()  # the name before may have spaces and brackets
            parents[int(path.parent.name)] = int(words[1])
            seconds[int(path.parent.name)] = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    mine = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(seconds.get(process, 0.0) for process in mine)
