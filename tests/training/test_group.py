"""Two processes that train one model: the same as one, and what happens when one of them dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.support.recipes import tiny
from vixformer.cli import main
from vixformer.config import Recipe
from vixformer.training.loop import train

DATA = {"val_fraction": 0.146}
"""427 + 73 images: 24 steps, and shares of the validation part of 37 and 36, which are two batches and one."""
RECIPE = tiny(attention="performer(features=8)", fraction=0.1, epochs=2, batch_size=36, redraw_every=7, data=DATA)


def started(recipe: Recipe, out: Path, processes: int) -> subprocess.Popen[str]:
    out.mkdir(parents=True, exist_ok=True)
    path = out / "recipe.json"
    path.write_text(recipe.to_json())
    return launched(processes, "train", str(path), "--out", str(out))


def launched(processes: int, *args: str) -> subprocess.Popen[str]:
    launch = (
        [] if processes == 1 else ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    )
    command = [sys.executable, "-m", *launch, "vixformer", *args]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def ended(run: subprocess.Popen[str]) -> str:
    """What it said. Where it does not end, every process says where it is."""
    try:
        said, complaint = run.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        for process in (*_ranks(run.pid), run.pid):
            os.kill(process, signal.SIGABRT)
        said, complaint = run.communicate()
    assert run.returncode == 0, complaint
    return said


def trained(recipe: Recipe, out: Path, processes: int) -> tuple[Path, str]:
    said = ended(started(recipe, out, processes))
    (folder,) = (path.parent for path in out.glob("*/summary.json"))
    return folder, said


@pytest.mark.parametrize("shard", [pytest.param(False, marks=pytest.mark.slow), True])
def test_two_are_as_good_as_one(tmp_path: Path, shard: bool) -> None:
    two, said = trained(replace(RECIPE, train=replace(RECIPE.train, shard=shard)), tmp_path / "two", 2)
    assert said.count("test top-1") == 1  # one of them speaks
    train(RECIPE, tmp_path / "one")
    alike(tmp_path / "one", two)


def alike(one: Path, two: Path) -> None:
    weights = [load_file(folder / "last.safetensors") for folder in (one, two)]
    for name, value in weights[0].items():
        if name.startswith("model."):
            assert torch.allclose(value, weights[1][name], atol=1e-5), name
    histories = [
        [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()] for folder in (one, two)
    ]
    for a, b in zip(*histories, strict=True):
        for key in ("train_loss", "train_top1", "val_loss", "val_top1"):
            assert abs(a[key] - b[key]) < 1e-3, key
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (one, two)]
    assert summaries[0]["test_top1"] == summaries[1]["test_top1"]
    assert summaries[0]["confusion"] == summaries[1]["confusion"]


@pytest.mark.slow
def test_a_model_in_parts_goes_on_in_parts(tmp_path: Path) -> None:
    # rate and new features would depend on the number of epochs
    steady = replace(RECIPE, train=replace(RECIPE.train, schedule="constant", redraw_every=None))
    one, _ = trained(steady, tmp_path / "one", 1)
    two, _ = trained(replace(steady, train=replace(steady.train, epochs=1, shard=True)), tmp_path / "two", 2)
    (two / "recipe.json").write_text((two / "recipe.json").read_text().replace('"epochs": 1,', '"epochs": 2,'))
    (two / "summary.json").unlink()
    ended(launched(2, "train", "--resume", str(two)))
    weights = [load_file(folder / "last.safetensors") for folder in (one, two)]
    assert all(
        torch.allclose(value, weights[1][name], atol=1e-5)
        for name, value in weights[0].items()
        if name.startswith("model.")
    )


def test_ranks_agree_bit_for_bit_and_with_one(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        "import os, sys, torch\n"
        "from pathlib import Path\n"
        "from vixformer.config import read_recipe\n"
        "from vixformer.training.loop import train\n"
        "destroy = torch.distributed.destroy_process_group\n"
        "def destroyed():\n"
        "    destroy()\n"
        "    threads = [task.read_text() for task in Path('/proc/self/task').glob('*/comm')]\n"
        "    assert not any('gloo' in name for name in threads), threads  # whoever ends them later may wait for ever\n"
        "torch.distributed.destroy_process_group = destroyed\n"
        "result = train(read_recipe(sys.argv[1]), Path(sys.argv[2]) / 'two')\n"
        "torch.save(result.model.state_dict(), f\"{sys.argv[2]}/{os.environ['RANK']}.pt\")\n"
    )
    # so that the best epoch, which the first one restores, is the last
    short = replace(RECIPE, train=replace(RECIPE.train, epochs=1))
    (tmp_path / "recipe.json").write_text(short.to_json())
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    args = [*launch, str(script), str(tmp_path / "recipe.json"), str(tmp_path)]
    done = subprocess.run(args, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=300)
    assert done.returncode == 0, done.stderr
    zero, one = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert all(torch.equal(zero[name], one[name]) for name in zero)  # random features too
    train(short, tmp_path / "one")
    alike(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
def test_a_dead_process_ends_the_run_and_another_number_goes_on(tmp_path: Path) -> None:
    long = replace(RECIPE, train=replace(RECIPE.train, epochs=60))
    run = started(long, tmp_path, 2)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*/last.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.1)
    victim = _ranks(run.pid)[1]
    os.kill(victim, signal.SIGKILL)
    _, complaint = run.communicate(timeout=300)
    assert run.returncode != 0
    assert "one of the 2 processes is gone" in complaint or "interrupted" in complaint
    (folder,) = (path.parent for path in tmp_path.glob("*/last.safetensors"))
    done = len((folder / "history.jsonl").read_text().splitlines())
    assert 0 < done < 60
    (folder / "recipe.json").write_text(
        (folder / "recipe.json").read_text().replace('"epochs": 60', f'"epochs": {done + 1}')
    )
    main(["train", "--resume", str(folder)])
    assert len((folder / "history.jsonl").read_text().splitlines()) == done + 1


def _ranks(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ranks = {}
    for child in map(int, children):
        for entry in Path(f"/proc/{child}/environ").read_text().split("\0"):
            if entry.startswith("RANK="):
                ranks[int(entry.removeprefix("RANK="))] = child
    return [ranks[rank] for rank in sorted(ranks)]
