"""What a study asks of its database: `python -m benchmarks.study`, on a real PostgreSQL of this machine.

The real search with trials that train nothing and report ten epochs: statements and milliseconds a trial, in the
database and in all, as the study grows; then by eight workers at once. From that, how many workers one database
carries.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.page import table_command
from tests.support.postgres import Server
from tests.support.studies import RECIPE
from vixformer.experiments.search import study as studies
from vixformer.experiments.search.space import read_space
from vixformer.experiments.search.storage import open_storage
from vixformer.results.runs import HISTORY, SUMMARY
from vixformer.results.runs import RECIPE as RUN_RECIPE

EPOCHS = 10
STEPS = (50, 150, 300)
"""Trials in the study."""
WORKERS = 8


def without_training(recipe: Any, folder: Path, *, resume: bool, observer: Any) -> None:
    value = random.random()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN_RECIPE).write_text(recipe.to_json())
    (folder / HISTORY).write_text("")
    for epoch in range(1, EPOCHS + 1):
        observer.epoch_done({"epoch": epoch, "val_top1": value})
    (folder / SUMMARY).write_text(json.dumps({"attention": "softmax", "val_top1": value}))


def plan(trials: int) -> studies.Plan:
    recipe = replace(RECIPE, train=replace(RECIPE.train, epochs=EPOCHS))
    space = read_space(
        "train.lr=1e-5..1e-2:log; train.weight_decay=0..0.5; model.drop_rate=0..0.5; train.batch_size=16|32|64"
    )
    return studies.Plan(name="load", recipe=recipe, space=space, trials=trials, pruner="median")


def work(address: str, out: str, trials: int) -> None:
    studies.train = without_training  # pyright: ignore[reportAttributeAccessIssue]
    studies.search(plan(trials), Path(out), address)


class Clock:
    """Statements, and the time spent in them."""

    def __init__(self) -> None:
        from sqlalchemy import event
        from sqlalchemy.engine import Engine

        self.statements, self.seconds, self.began = 0, 0.0, 0.0
        event.listen(Engine, "before_cursor_execute", self.before)
        event.listen(Engine, "after_cursor_execute", self.after)

    def before(self, *_: Any) -> None:
        self.began = time.perf_counter()

    def after(self, *_: Any) -> None:
        self.statements += 1
        self.seconds += time.perf_counter() - self.began


def measure(_: float) -> Sequence[str]:
    server = Server()
    lines = [
        "| trials in the study | workers | statements a trial | ms in the database | ms in all | trials a second |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    try:
        with tempfile.TemporaryDirectory() as out:
            clock, before = Clock(), 0
            for trials in STEPS:
                statements, spent, began = clock.statements, clock.seconds, time.perf_counter()
                work(server.address, out, trials)
                took, count = time.perf_counter() - began, trials - before
                said, spent = (clock.statements - statements) / count, 1e3 * (clock.seconds - spent) / count
                lines.append(
                    f"| {before} to {trials} | 1 | {said:.0f} | {spent:.0f} | {1e3 * took / count:.0f} |"
                    f" {count / took:.1f} |"
                )
                before = trials
            spawn = multiprocessing.get_context("spawn")
            more = before + 200
            workers = [spawn.Process(target=work, args=(server.address, out, more)) for _ in range(WORKERS)]
            for worker in workers:
                worker.start()
            storage = open_storage(server.address, Path(out))
            seen: list[tuple[float, int]] = []
            while any(worker.is_alive() for worker in workers):
                seen.append((time.perf_counter(), storage.get_n_trials(storage.get_study_id_from_name("load"))))
                time.sleep(0.5)
            busy = [
                (at, n) for at, n in seen if before + 40 <= n <= more - 40
            ]  # without the imports at the start and the last ones waiting
            rate = (busy[-1][1] - busy[0][1]) / (busy[-1][0] - busy[0][0])
            lines.append(f"| {before} to {more} | {WORKERS} | | | {1e3 * WORKERS / rate:.0f} | {rate:.1f} |")
    finally:
        server.remove()
    return lines


if __name__ == "__main__":
    conditions = f"PostgreSQL on the same machine, {EPOCHS} epochs a trial, TPE, median pruner"
    table_command(__doc__, "study", 0.0, conditions, measure, meanwhile=False)
