"""A study on a real PostgreSQL: three workers, one killed, the server away for a while. Nothing is lost, nothing is
done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.support.studies import RECIPE
from vixformer.experiments.search.storage import close_storage, open_storage

pytest.importorskip("pgserver")


@pytest.fixture
def server() -> Iterator[Any]:
    from tests.support.postgres import Server

    try:
        server = Server()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"PostgreSQL does not start here: {error}")
    yield server
    server.remove()


def test_three_workers_one_killed_the_server_restarted(server: Any, tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(RECIPE.to_json())
    space = "train.seed=0|1|2|3; train.epochs=12"
    args = [
        sys.executable,
        "-m",
        "vixformer",
        "search",
        str(tmp_path / "recipe.json"),
        "--study",
        "study",
        "--space",
        space,
        "--sampler",
        "grid",
    ]
    args += [
        "--storage",
        server.address,
        "--out",
        str(tmp_path / "runs"),
        "--heartbeat",
        "1",
        "--train.no-measure",
        "--pruner",
        "none",
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) for _ in range(3)
    ]

    def trials() -> list[Any]:
        storage = open_storage(server.address, tmp_path)
        try:
            return optuna.load_study(study_name="study", storage=storage).get_trials()
        except KeyError:
            return []  # not begun
        finally:
            close_storage(storage)

    def until(condition: Any) -> None:
        deadline = time.monotonic() + 180
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.5)
        assert condition()

    until(lambda: Counter(t.state.name for t in trials())["RUNNING"] == 3)
    victim = next(t for t in trials() if t.state.name == "RUNNING" and "folders" in t.user_attrs)
    killed = int(victim.user_attrs["worker"].rpartition(":")[2])
    os.kill(killed, signal.SIGKILL)
    until(lambda: any(t.state.name == "COMPLETE" for t in trials()))
    server.stop()
    time.sleep(3)
    server.start()
    for worker in workers:
        out, complaint = worker.communicate(timeout=240)
        assert worker.returncode == (-signal.SIGKILL if worker.pid == killed else 0), complaint
        assert worker.pid == killed or "Best trial by most val_top1" in out
    done = [t for t in trials() if t.state.name == "COMPLETE"]
    assert sorted(t.params["train.seed"] for t in done) == list(range(4))  # each once
    assert len(list((tmp_path / "runs").glob("*/summary.json"))) == 4
    assert not [t for t in trials() if t.state.name in ("RUNNING", "WAITING")]
