"""Trainings one after the other in each lane, every one a process of one thread that stores what it has when it is told
to stop."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import chain

from tools import quiet
from tools.lab.jobs import RUNS, Experiment, Job, jobs, known_records
from tools.runs import keep
from vixformer.plugins import foreign
from vixformer.results.records import Record
from vixformer.results.runs import SUMMARY, read_run
from vixformer.training.lock import locked
from vixformer.writing import write_json

LOOK = 1.0
"""Seconds between two looks at the lanes."""
FAILED = RUNS / "failed.json"
"""By content id, why a training ended without a result: it is not tried again."""


class Lane:
    """A training in its own process, which says in lines of JSON what happens."""

    def __init__(self, job: Job) -> None:
        self.job, self.began, self.error = job, time.perf_counter(), ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vixformer.experiments.lanes", str(job.folder), "resume"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C comes to the lab, and from the lab to them, once
        )
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self) -> None:
        given, said = self.process.stdin, self.process.stdout
        assert given is not None and said is not None
        with contextlib.suppress(BrokenPipeError), given, said:
            with contextlib.suppress(BrokenPipeError):  # it ended before it began
                given.write(
                    json.dumps({"name": self.job.name, "recipe": self.job.started().to_dict(), "foreign": foreign()})
                    + "\n"
                )
                given.flush()  # and it stays open: that it closes tells the other process that the lab is gone
            for line in said:
                self.error = json.loads(line).get("error", self.error)

    @property
    def over(self) -> bool:
        return self.process.poll() is not None and not self.listener.is_alive()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.listener.join()


def run(experiments: Iterable[Experiment], lanes: int, tell: Callable[[str], None] = print) -> None:
    """Until nothing is left, or it is interrupted."""
    experiments = list(experiments)
    RUNS.mkdir(parents=True, exist_ok=True)
    with locked(RUNS):
        while True:
            while quiet.wanted():
                time.sleep(LOOK)
            with quiet.busy():
                if _until_quiet(experiments, lanes, tell):
                    return


def _until_quiet(experiments: list[Experiment], lanes: int, tell: Callable[[str], None]) -> bool:
    """Whether everything is done; otherwise somebody wants a quiet machine."""
    running: list[Lane] = []
    known, died = known_records(), set[str]()
    try:
        while not quiet.wanted():
            for lane in [lane for lane in running if lane.over]:
                running.remove(lane)
                if not _finished(lane, tell):
                    died.add(lane.job.id)
                known = known_records()
            skipped = died | {lane.job.id for lane in running}
            while len(running) < lanes and (job := next_job(experiments, known, skipped)) is not None:
                tell(f"{job.told}: {job.recipe.train.epochs} epochs")
                running.append(Lane(job))
                skipped.add(job.id)
            if not running:
                return True
            time.sleep(LOOK)
        tell("paused while tests or timings run")
        return False
    finally:
        for lane in running:
            lane.stop()


def next_job(experiments: Iterable[Experiment], known: Mapping[str, Record], skipped: Collection[str]) -> Job | None:
    """The first without a record; before it the parent that it starts from, whose weights may be on another machine."""
    failed = read_failed()
    skipped = {*skipped, *failed}
    for job in chain.from_iterable(jobs(experiment, known, failed) for experiment in experiments):
        if job.id in known or job.id in skipped:
            continue
        parent = job.parent
        if parent is None or (parent.folder / SUMMARY).exists():
            return job
        if parent.id not in skipped:
            return parent
    return None


def _finished(lane: Lane, tell: Callable[[str], None]) -> bool:
    """Keep what a process left. One that said why it failed is not tried again; one that died is, when the lab starts
    again."""
    job, minutes = lane.job, (time.perf_counter() - lane.began) / 60
    if (job.folder / SUMMARY).exists():
        found = read_run(job.folder)
        keep(found, job.name)
        assert found.summary is not None
        tell(f"{job.told}: {found.summary['test_top1']:.2f} % of the test images after {minutes:.1f} minutes")
        return True
    why = lane.error or f"its process ended with {lane.process.returncode}"
    if lane.error:
        write_json(FAILED, {**read_failed(), job.id: f"{job.told}: {why}"})
    tell(f"{job.told} failed: {why}")
    return False


def read_failed() -> dict[str, str]:
    return json.loads(FAILED.read_text()) if FAILED.exists() else {}
