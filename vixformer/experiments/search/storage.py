"""Where a study lives, and patience with it: a database that goes away for a while costs waiting, not results."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import re
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeGuard, TypeVar

from vixformer.jsonfile import Values

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, RDBStorage

Result = TypeVar("Result")

HEARTBEAT = 30
"""Seconds between signs of life of a worker; after four times as long without one, its trial goes to another."""
BEATS = "beats"
"""What a trial has once its worker has given a sign of life."""
RETRIES = 3
"""Times that a trial whose worker died is taken up again: it may be the reason."""
MAKING = 10
"""Attempts to open a storage whose tables another worker is making."""
PATIENCE = 900.0
"""Seconds to wait for a database that does not answer."""


def open_storage(where: str | None, out: Path, heartbeat: int = HEARTBEAT) -> BaseStorage:
    """`postgresql://...` for many machines, `journal:FILE` for one file system, a `sqlite:///` address or, left out, a
    file in `out`."""
    optuna = _optuna()
    if where is not None and where.startswith("journal:"):
        backend = optuna.storages.journal
        if not Path(where.removeprefix("journal:")).parent.is_dir():
            raise ValueError(f"--storage {where}: there is no folder {Path(where.removeprefix('journal:')).parent}")
        with undamaged(where):
            return optuna.storages.JournalStorage(backend.JournalFileBackend(where.removeprefix("journal:")))
    out.mkdir(parents=True, exist_ok=True)
    address = where or f"sqlite:///{out.resolve() / 'study.db'}"
    if not re.match(r"(sqlite|postgresql)(\+\w+)?://", address):
        raise ValueError(
            f"--storage must be postgresql://USER@HOST/NAME, sqlite:///FILE or journal:FILE, not {address}"
        )
    address = re.sub(r"^postgresql://", "postgresql+psycopg://", address)
    options: Values = {"connect_args": {"timeout": 100}} if address.startswith("sqlite") else {"pool_pre_ping": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        again = optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES)
        for attempt in range(MAKING):
            try:
                return optuna.storages.RDBStorage(
                    address,
                    options,
                    heartbeat_interval=heartbeat,
                    grace_period=4 * heartbeat,
                    heartbeat_stale_trial_callback=again,
                )
            except Exception as error:
                if attempt < MAKING - 1 and _is_made_by_another(error):
                    time.sleep(0.5 + random.random())
                    continue
                raise ValueError(
                    f"the storage {_hidden(address)} cannot be reached: {_first(error)}; is it running, and is the name"
                    " right?"
                ) from None
    raise AssertionError("unreachable")


@contextlib.contextmanager
def undamaged(what: str) -> Iterator[None]:
    """Optuna checks nothing of what it reads, so damage may look like any of these."""
    try:
        yield
    except (
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
        RuntimeError,
        json.JSONDecodeError,
        UnicodeDecodeError,
    ) as error:
        told = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{what} is damaged ({told}): give another --study, --storage or --out") from None


def close_storage(storage: BaseStorage) -> None:
    """Its connections."""
    if has_heartbeat(storage):
        storage.remove_session()
        storage.engine.dispose()


def has_heartbeat(storage: BaseStorage) -> TypeGuard[RDBStorage]:
    return hasattr(storage, "record_heartbeat")


def patiently(call: Callable[[], Result], seconds: float | None = None) -> Result:
    """Again and again while the database does not answer."""
    deadline = time.monotonic() + (PATIENCE if seconds is None else seconds)
    pause = 0.5
    while True:
        try:
            return call()
        except Exception as error:
            if not _is_away(error):
                if (sentence := _broken(error)) is None:
                    raise
                raise ValueError(sentence) from None
            if time.monotonic() > deadline:
                raise ValueError(
                    f"the study's database has not answered for {PATIENCE / 60:.0f} minutes ({_first(error)}); what was"
                    " trained is in the run folders, and the same command resumes there"
                ) from None
            time.sleep(pause)
            pause = min(2 * pause, 10.0)


class Beating:
    """Signs of life of a trial, from a thread of its own; a database that is away is tried again."""

    def __init__(self, storage: BaseStorage, trial_id: int) -> None:
        self.over, self.thread = threading.Event(), None
        if has_heartbeat(storage):
            self.thread = threading.Thread(target=self._beat, args=(storage, trial_id), daemon=True)

    def __enter__(self) -> None:
        if self.thread is not None:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.thread is not None:
            self.thread.join()

    def _beat(self, storage: RDBStorage, trial_id: int) -> None:
        interval, known = storage.get_heartbeat_interval() or HEARTBEAT, False
        while True:
            try:
                storage.record_heartbeat(trial_id)
                if not known:
                    storage.set_trial_user_attr(trial_id, BEATS, True)
                    known = True
            except Exception as error:
                if not _is_away(error):
                    raise
            if self.over.wait(interval):
                return


def _is_made_by_another(error: BaseException) -> bool:
    """Of workers that begin at the same moment, one makes the tables and the others find them half there."""
    return bool(re.search("already exists|unique constraint|duplicate key", str(error), re.IGNORECASE))


def _is_away(error: BaseException) -> bool:
    """Of a connection, not of what was asked. A file is here for good: only its lock is worth waiting for."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import InterfaceError, OperationalError

    away = isinstance(error, StorageInternalError | InterfaceError | OperationalError)
    return away and (_of_file(error) is None or "locked" in str(_of_file(error)))


def _of_file(error: BaseException) -> sqlite3.Error | None:
    """What SQLite said, behind what sqlalchemy and optuna made of it."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, sqlite3.Error):
        found = found.__cause__
    return found


def _broken(error: BaseException) -> str | None:
    """A sentence, where the file of a study is full or damaged."""
    if (file := _of_file(error)) is None:
        return None
    return (
        f"the file of the study cannot be used: {file}; trained runs are in their folders: make room, or give another"
        " --storage or --out"
    )


def _optuna() -> ModuleType:
    try:
        import optuna
    except ImportError:
        raise ValueError('searches need optuna: pip install "vixformer[search]"') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.ERROR)
    return optuna


def _hidden(address: str) -> str:
    """Without the password."""
    return re.sub(r":[^:@/]+@", ":***@", address)


def _first(error: BaseException) -> str:
    return " ".join(str(error).splitlines()[0].split())[:200] if str(error) else type(error).__name__
