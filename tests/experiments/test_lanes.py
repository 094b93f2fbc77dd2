"""Trainings side by side."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.recipes import tiny
from vixformer.cli import main
from vixformer.commands.comparison import comparison
from vixformer.commands.watch import Watch
from vixformer.config import Recipe
from vixformer.experiments.compare import compare
from vixformer.experiments.lanes import Lanes, share_of_threads
from vixformer.plugins import foreign
from vixformer.recipes.catalog import RECIPES
from vixformer.results.runs import SUMMARY, list_runs
from vixformer.training.observer import Observer


class Heard(Observer):
    def __init__(self, name: str, into: list[str]) -> None:
        self.name, self.into = name, into

    def epoch_done(self, record) -> None:
        self.into.append(f"{self.name} epoch {record['epoch']}")

    def ends(self) -> None:
        self.into.append(f"{self.name} ends")


def few(**options: Any) -> Recipe:
    """Most of the time is in starting processes."""
    return tiny(fraction=0.02, data={"test_fraction": 0.1}, **options)


def test_two_at_a_time_are_as_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = few(attention="softmax", epochs=2)
    linear = few(attention="performer(kernel=relu)", weights="some/exact", epochs=1)
    monkeypatch.setitem(RECIPES, "some/exact", lambda: exact)
    recipes = {"some/linear": linear, "some/other": few(attention="nystrom", epochs=1)}
    happened: list[str] = []
    found = compare(recipes, tmp_path / "beside", jobs=2, observer=lambda name, *_: Heard(name, happened))
    # what another starts from comes first
    assert happened[:3] == ["some/exact epoch 1", "some/exact epoch 2", "some/exact ends"]
    assert sorted(happened[3:]) == [
        f"some/{name} {what}" for name in ("linear", "other") for what in ("ends", "epoch 1")
    ]
    with share_of_threads(2):  # as many threads, as they change the order of sums
        alone = compare(recipes, tmp_path / "alone")
    assert [row.test_top1 for row in found.rows] == [row.test_top1 for row in alone.rows]
    assert any("2 models were trained at a time" in note for note in comparison(found)[2])
    assert len(list_runs(tmp_path / "beside")) == 3
    told: list[str] = []

    def there(name: str, _: Recipe, done: bool) -> Observer:
        return Observer() if done else pytest.fail(f"{name} again")

    compare(recipes, tmp_path / "beside", jobs=2, observer=there, tell=told.append)
    assert told == ["timing inference of 2 models in turn"]


def test_what_is_wrong_with_one_ends_all(tmp_path: Path) -> None:
    fine = tiny(attention="softmax", epochs=2000)
    wrong = replace(fine, model=replace(fine.model, attention="performer(kernel=softmax, features=none)"))

    class Begun(Observer):
        def epoch_done(self, record) -> None:
            if record["epoch"] == 1:
                lanes.train("wrong", wrong, tmp_path / "wrong", resume=True, observer=Observer())

    with Lanes(2) as lanes:
        lanes.train("fine", fine, tmp_path / "fine", resume=True, observer=Begun())
        with pytest.raises(ValueError, match=r"^wrong: .*not none"):
            lanes.wait()
    assert [run.summary for run in list_runs(tmp_path)] == [None]  # what the other did is kept, to go on with


def test_a_process_that_is_killed_is_named(tmp_path: Path) -> None:
    recipe = tiny(attention="softmax", epochs=200)

    class Killing(Observer):
        def epoch_done(self, record) -> None:
            lanes.running[0].process.kill()

    with Lanes(2) as lanes:
        lanes.train("poor", recipe, tmp_path / "run", resume=True, observer=Killing())
        with pytest.raises(ValueError, match="trained poor ended with -9, maybe for want of memory"):
            lanes.wait()


def test_a_bar_for_all_and_one_each(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny(attention="softmax", epochs=3)
    watch = Watch("compare", None, "again")
    beside = watch.side_by_side(3)
    beside("there", recipe, True)
    one, other = beside("one", recipe, False), beside("other", recipe, False)
    one.epoch_done({"epoch": 1, "train_top1": 10.0, "val_top1": 20.0, "seconds": 2.0})
    assert capsys.readouterr().err == "one: epoch 1, train 10.0 %, val 20.0 %, 2.0 s\n"
    assert [(task.description, task.completed, task.total) for task in watch.bars.tasks if task.visible] == [
        ("runs", 1, 3), ("one", 1, 3), ("other", 0, 3),
    ]  # fmt: skip
    other.ends()
    assert [(task.description, task.completed) for task in watch.bars.tasks if task.visible] == [
        ("runs", 2),
        ("one", 1),
    ]


def test_not_under_torchrun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    Lanes(1)
    with pytest.raises(ValueError, match="leave --jobs out"):
        Lanes(2)
    with pytest.raises(ValueError, match="leave --budget out"):  # each process would decide by its own clock
        compare({"one": tiny()}, tmp_path, budget=60.0)


def test_threads_are_shared() -> None:
    threads = torch.get_num_threads()
    with share_of_threads(1000):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads


@pytest.mark.slow
def test_interrupted_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text(few(attention="softmax", epochs=20).to_json())
    (tmp_path / "b.json").write_text(few(attention="fourier", epochs=20).to_json())
    command = [sys.executable, "-m", "vixformer", "compare", "a.json", "b.json", "--jobs", "2"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        assert "epoch 1," in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode != 0
    assert "saved; resume with: vix compare a.json b.json --jobs 2" in said
    assert "Traceback" not in said
    histories = {run.folder: run.history() for run in list_runs(tmp_path / "runs")}
    assert 0 < sum(map(len, histories.values())) < 40
    monkeypatch.chdir(tmp_path)
    main(command[3:6])  # the rest in this process
    assert "| a |" in (tmp_path / "runs/compare.md").read_text()
    for folder, before in histories.items():
        after = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        assert (after[: len(before)], len(after)) == (before, 20)
        assert (folder / SUMMARY).exists()


@pytest.mark.slow
def test_children_of_a_killed_command_end_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(tiny(attention="softmax", epochs=5000).to_json())
    (tmp_path / "b.json").write_text(tiny(attention="fourier", epochs=5000).to_json())
    command = [sys.executable, "-m", "vixformer", "compare", "a.json", "b.json", "--jobs", "2"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        begun: set[str] = set()
        while len(begun) < 2:  # both are training
            begun.add(process.stderr.readline().partition(":")[0])
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        killed = time.monotonic()
        process.stderr.read()  # ends when nobody has it any more: neither the command nor its children
    assert time.monotonic() - killed < 60  # they would train for an hour, and a busy machine may look at them late
    assert len(children) >= 2
    assert not [
        child
        for child in children
        if Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def test_a_measurement_ends_with_whoever_asked_for_it(tmp_path: Path) -> None:
    """In the middle of a model: a killed command left it computing."""
    began = tmp_path / "began"
    (tmp_path / "slow.py").write_text(f"import pathlib, time\npathlib.Path({str(began)!r}).touch()\ntime.sleep(600)\n")
    given = {**foreign(), "path": [*sys.path, str(tmp_path)], "modules": {"slow": None}}
    command = [sys.executable, "-m", "vixformer.measure.memory"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(json.dumps({"job": {"model": {}, "batch": 1}, "foreign": given}) + "\n")
        process.stdin.flush()
        asked = time.monotonic()
        while not began.exists():
            assert process.poll() is None
            assert time.monotonic() - asked < 60
            time.sleep(0.05)
        process.stdin.close()
        closed = time.monotonic()
        assert process.stderr.read() == ""  # it and its child have ended, without a traceback
    assert time.monotonic() - closed < 60


def test_jobs_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["compare", "quick/exact", "--jobs", "two"])
    assert "--jobs must be a whole number of at least 1, not two" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
