"""A life of being killed: what is kept, and what is refused."""

from __future__ import annotations

import copy
import json
import random
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
from vixformer.config import Recipe, read_recipe
from vixformer.results.files import read_tensors, write_tensors
from vixformer.training.lock import LOCK
from vixformer.training.loop import train
from vixformer.writing import PART

RUN = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from vixformer.config import read_recipe
from vixformer.training import loop
loop.CHECKPOINT_SECONDS = 0.05
loop.train(read_recipe(sys.argv[1]), sys.argv[2], resume=True)
"""


def few(**options: Any) -> Recipe:
    return tiny(data={"test_fraction": 0.1}, **options)


def start(recipe: Path, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN, str(recipe), str(folder)], stderr=subprocess.PIPE)


def killed_until_done(recipe: Path, folder: Path, kills: int) -> int:
    """Each time soon after a checkpoint. How many were killed before they had finished."""
    rng, last, history = random.Random(kills), folder / "last.safetensors", folder / "history.jsonl"
    completed = killed = 0
    for _ in range(kills):
        before = last.stat().st_mtime_ns if last.exists() else 0
        process = start(recipe, folder)
        while process.poll() is None and (not last.exists() or last.stat().st_mtime_ns == before):
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        now = len(history.read_text().splitlines()) if history.exists() else 0
        assert now >= completed  # no completed epoch is lost
        completed = now
    train(read_recipe(recipe), folder, resume=True)
    return killed


def same_weights(a: Path, b: Path) -> None:
    ours, theirs = (read_tensors(folder / "last.safetensors")[0] for folder in (a, b))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name
    assert not [p for p in b.rglob("*") if p.name.endswith(".part")]


def one_killed_life(tmp_path: Path, kills: int, epochs: int) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(few(epochs=epochs, redraw_every=7, attention="performer(features=8)").to_json())
    train(read_recipe(recipe), tmp_path / "whole")
    assert killed_until_done(recipe, tmp_path / "killed", kills) == kills
    same_weights(tmp_path / "whole", tmp_path / "killed")
    assert history_of(tmp_path / "whole") == history_of(tmp_path / "killed")


def history_of(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records]


def test_killed_and_resumed_it_is_the_same(tmp_path: Path) -> None:
    one_killed_life(tmp_path, kills=1, epochs=5)


def test_ctrl_c_saves_at_the_end_of_a_step_and_can_be_resumed(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(few(epochs=3).to_json())
    train(read_recipe(recipe), tmp_path / "whole")
    process = start(recipe, tmp_path / "cut")
    while not (tmp_path / "cut" / "last.safetensors").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=300)
    assert b"KeyboardInterrupt" in complaint
    killed_until_done(recipe, tmp_path / "cut", 0)
    same_weights(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
def test_thirty_kills(tmp_path: Path) -> None:
    one_killed_life(tmp_path, kills=30, epochs=150)


@pytest.mark.slow
def test_a_disk_that_fills_up_during_training_costs_nothing_that_was_there(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(tiny(epochs=4, fraction=0.1).to_json())
    train(read_recipe(recipe), tmp_path / "whole")
    folder = tmp_path / "cut"
    process = start(recipe, folder)
    while not (folder / "last.safetensors").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != LOCK and p.suffix != PART}
    # blocks of 1 KiB; a checkpoint is larger
    full = f"ulimit -f 8; exec {sys.executable} -m vixformer train --resume {folder}"
    done = subprocess.run(["bash", "-c", full], capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "is kept" in done.stderr
    assert "Traceback" not in done.stderr
    assert {p for p in folder.rglob("*") if p.is_file()} == set(before)
    assert (folder / "last.safetensors").read_bytes() == before[folder / "last.safetensors"]
    killed_until_done(recipe, folder, 0)
    same_weights(tmp_path / "whole", folder)


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    train(tiny(epochs=1), tmp_path)
    (tmp_path / "summary.json").unlink()
    with pytest.raises(ValueError, match="does not fit this recipe"):
        train(replace(tiny(), model=replace(tiny().model, depth=3)), tmp_path, resume=True)  # pyright: ignore[reportCallIssue]
    data = (tmp_path / "last.safetensors").read_bytes()
    (tmp_path / "last.safetensors").write_bytes(data[:-100])
    with pytest.raises(ValueError, match="missing, damaged or cut short"):
        train(tiny(), tmp_path, resume=True)


def test_a_checkpoint_whose_history_is_damaged_is_refused(tmp_path: Path) -> None:
    """Resuming compares every epoch with the others: a TypeError or KeyError, after the next epoch was trained."""
    train(tiny(epochs=1), tmp_path)
    (tmp_path / "summary.json").unlink()
    tensors, note = read_tensors(tmp_path / "last.safetensors")
    for value, sentence in (
        ("90", "0.val_top1 should be a valid number"),
        ([1.0], "should be a valid number"),
        (None, "has no val_top1"),
    ):
        damaged = copy.deepcopy(note)
        damaged["history"][0]["val_top1"] = value
        if value is None:
            del damaged["history"][0]["val_top1"]
        write_tensors(tmp_path / "last.safetensors", tensors, damaged)
        with pytest.raises(ValueError, match=rf"last.safetensors is damaged: .*{sentence}"):
            train(tiny(epochs=2), tmp_path, resume=True)
