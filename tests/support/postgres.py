"""A real PostgreSQL on a free port, for as long as a test or a benchmark lasts."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pgserver

PROGRAMS = Path(pgserver.__file__).parent / "pginstall/bin"
NOBODY: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
"""PostgreSQL refuses to run as root."""


class Server:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vix-postgres-", dir="/tmp"))
        if NOBODY:
            subprocess.run(["chown", "nobody", str(self.folder)], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", str(self.folder / "data"), "-U", "vix", "-A", "trust", "-E", "UTF8")
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "vix", "studies")
        self.address = f"postgresql://vix@127.0.0.1:{self.port}/studies"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        self._run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-o", options, "-l", str(self.folder / "log"), "start"
        )

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", "immediate", "stop")

    def _run(self, program: str, *args: str) -> None:
        subprocess.run(
            [str(PROGRAMS / program), *args], check=True, cwd=self.folder, stdout=subprocess.DEVNULL, **NOBODY
        )

    def remove(self) -> None:
        self.stop()
        subprocess.run(["rm", "-rf", str(self.folder)], check=True)
