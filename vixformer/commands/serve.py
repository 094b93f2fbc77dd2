"""`vix serve`."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import PositiveInt

from vixformer.commands.flags import split_flags
from vixformer.terminal import read, say

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class Options:
    host: str = "127.0.0.1"
    """0.0.0.0 lets other machines in."""
    port: int = 8000
    memory_mb: PositiveInt = 1024
    """For weights; models that were not asked for longest are put away."""


def serve(args: Sequence[str]) -> None:
    words, flags = split_flags(args)
    options: Options = read(Options, flags, "serve")
    folders = [Path(word) for word in words if not word.endswith(".json")] or [Path("runs")]
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f'{folder} is no folder of runs: "vix train quick/exact --out {folder}" makes one')
    if not 0 <= options.port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, not {options.port}")
    try:
        import uvicorn

        from vixformer.serve.app import create_app, runs_in
    except ImportError as error:
        raise ValueError(f'serving needs {error.name}: pip install "vixformer[serve]"') from None

    from vixformer.commands.report import benches_in

    count = runs_in(folders)
    hosts = ("127.0.0.1", "localhost", "[::1]", "::1") if options.host in LOOPBACK else ("*",)
    app = create_app(folders, options.memory_mb * 2**20, hosts, benches_in(words))
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listening = socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        raise ValueError(f"port {options.port} of {options.host} cannot be had ({error.strerror}): give another --port or --host") from None
    with listening:
        shown = f"[{options.host}]" if ":" in options.host else options.host
        say(f"{count} runs at http://{shown}:{listening.getsockname()[1]}/ (the API is described at /docs); Ctrl-C ends it")
        if options.host not in LOOPBACK:
            say("anyone who can reach this machine can see the runs and ask the models; --host 127.0.0.1 keeps it to yourself")
        uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_keep_alive=15)).run(sockets=[listening])
