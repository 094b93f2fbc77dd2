"""Trainings side by side, each a process with its part of the threads: small models leave cores idle that another
training can use."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import torch

from vixformer.config import Recipe, recipe_from_dict
from vixformer.data.dataset import Whole
from vixformer.jsonfile import Values, parse_json
from vixformer.notes import printed_notes, want_of_memory
from vixformer.plugins import complaint, foreign, import_foreign
from vixformer.training.group import refuse_torchrun
from vixformer.training.loop import run, with_parent
from vixformer.training.observer import Interrupt, NotFiniteError, Observer

LOOK = 0.2
"""Seconds of one wait: Windows notices Ctrl-C only between waits."""
BESIDE = 0.85
"""How fast a training is beside others, to alone on as many threads."""


@contextlib.contextmanager
def share_of_threads(count: int) -> Iterator[None]:
    """The share of one of several parallel trainings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // count))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class _Lane:
    process: subprocess.Popen[str]
    label: str
    observer: Observer
    began: float


class Lanes:
    """As many trainings at a time as there are lanes; with one lane they run in this process, one after the other."""

    def __init__(self, count: int = 1) -> None:
        if count > 1:
            refuse_torchrun("--jobs")
        self.count = count
        with share_of_threads(count):
            self.threads = torch.get_num_threads()
        self.longest = 0.0
        """Seconds that a training took, of those that are over."""
        self.took: dict[str, float] = {}
        """The same, by label."""
        self.may_diverge = False
        """Whether a loss that is not finite ends the training alone, and not everything."""
        self.running: list[_Lane] = []
        self.events: queue.Queue[tuple[_Lane, str]] = queue.Queue()
        self.interrupt = Interrupt(waits=False)

    def __enter__(self) -> Lanes:
        if self.count > 1:  # alone, the training listens itself
            self.interrupt.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for lane in self.running:
                lane.process.terminate()  # each stores what it has at the end of its step
            for lane in self.running:
                lane.process.wait()
        finally:
            self.interrupt.__exit__()

    def train(
        self,
        label: str,
        recipe: Recipe,
        folder: Path,
        *,
        resume: bool,
        observer: Observer,
        name: str | None = None,
        data: Whole | None = None,
    ) -> None:
        """Returns when the training has begun, which waits for a free lane. `name` is that of the recipe. `data` is for
        one lane: other processes read their own."""
        if self.count == 1:
            began = time.perf_counter()
            try:
                run(recipe, folder, resume=resume, observer=observer, name=name, data=data)
            except NotFiniteError:
                if not self.may_diverge:
                    raise
            self._took(label, began)
            return
        self.wait(self.count - 1)
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), "resume" if resume else "again"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
            start_new_session=True,  # Ctrl-C comes to us, and from us to them, once
        )
        lane = _Lane(process, label, observer, time.perf_counter())
        self.running.append(lane)
        job = json.dumps({"name": name, "recipe": recipe.to_dict(), "foreign": foreign()})
        threading.Thread(target=self._listen, args=(lane, job), daemon=True).start()

    def wait(self, at_most: int = 0) -> None:
        """Until at most this number are running."""
        while len(self.running) > at_most:
            with contextlib.suppress(queue.Empty):
                self._heard(*self.events.get(timeout=LOOK))

    def _listen(self, lane: _Lane, job: str) -> None:
        given, said = lane.process.stdin, lane.process.stdout
        assert given is not None and said is not None
        with contextlib.suppress(BrokenPipeError), given, said:
            with contextlib.suppress(BrokenPipeError):  # it ended before it began, and its last line says why
                given.write(job + "\n")
                given.flush()  # and it stays open: that it closes tells the other process that this one is gone
            for line in said:
                self.events.put((lane, line))
        self.events.put((lane, ""))

    def _heard(self, lane: _Lane, line: str) -> None:
        event: Values = json.loads(line) if line else {}
        if "error" in event and not (self.may_diverge and event["diverged"]):
            raise ValueError(f"{lane.label}: {event['error']}")
        if "what" in event:
            getattr(lane.observer, event["what"])(*event["values"])
        elif event:
            pass  # it diverged, and ends
        elif lane.process.wait() == 0:
            self.running.remove(lane)
            lane.observer.ends()
            self._took(lane.label, lane.began)
        else:
            raise ValueError(
                f"the process that trained {lane.label} ended with {lane.process.returncode}"
                + (", maybe for want of memory: fewer --jobs need less of it" if lane.process.returncode == -9 else "")
            )

    def _took(self, label: str, began: float) -> None:
        self.took[label] = time.perf_counter() - began
        self.longest = max(self.longest, self.took[label])


class _Telling(Observer):
    """One line a happening, for who reads standard output."""

    def begins_with(self, what: str) -> None:
        _tell(what="begins_with", values=[what])

    def taught(self, step: int, steps: int, error: float) -> None:
        if step % 10 == 0 or step == steps:
            _tell(what="taught", values=[step, steps, error])

    def epoch_begins(self, epoch: int, batches: int) -> None:
        _tell(what="epoch_begins", values=[epoch, batches])

    def epoch_done(self, record: Values) -> None:
        _tell(what="epoch_done", values=[record])


def _tell(**event: object) -> None:
    try:
        print(json.dumps(event), file=_told(), flush=True)
    except BrokenPipeError:
        os._exit(1)


def _end_with_parent() -> None:
    """Standard input is open as long as the process that started this one lives. What is written is whole at any
    moment."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os._exit(1)


@functools.cache
def _told() -> TextIO:
    """Standard output, which is ours alone from now on: what a model prints goes to standard error."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return told


def main() -> None:
    """One training: its folder and whether to resume it as arguments, its recipe and what to import on standard
    input."""
    _told()
    folder, how = sys.argv[1:]
    job = parse_json(sys.stdin.readline(), "the training")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        import_foreign(job["foreign"])
        recipe = recipe_from_dict(job["recipe"], "the recipe")
        with printed_notes():
            data = recipe.data.source().whole()
            recipe = with_parent(recipe, data, Path(folder).parent, lambda *_: _Telling())
            run(recipe, Path(folder), resume=how == "resume", observer=_Telling(), name=job.get("name"), data=data)
    except (ValueError, ImportError, OSError) as error:
        _tell(error=complaint(error, job["foreign"]), diverged=isinstance(error, NotFiniteError))
    except (MemoryError, RuntimeError) as error:
        if (sentence := want_of_memory(error)) is None:
            raise
        _tell(error=sentence, diverged=False)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
