"""`vix serve`."""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import PositiveInt

from vixformer.commands.flags import split_flags
from vixformer.terminal import read, say

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN = re.compile(r"[\w-]{16,}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Options:
    host: str = "127.0.0.1"
    """0.0.0.0 lets other machines in, with a token."""
    port: int = 8000
    memory_mb: PositiveInt = 1024
    """For weights; the least recently used models are unloaded."""
    token: str | None = None
    """What a visitor has to show, at least 16 characters. Left out, none is needed on this machine alone, and for others one is made."""
    names: str = ""
    """Further names of this machine that visitors may use, with commas. Its host name and its IP addresses always work."""


def serve(args: Sequence[str]) -> None:
    words, flags = split_flags(args)
    options: Options = read(Options, flags, "serve")
    folders = [Path(word) for word in words if not word.endswith(".json")] or [Path("runs")]
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f'{folder} is no folder of runs: "vix train quick/exact --out {folder}" makes one')
    if not 0 <= options.port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, not {options.port}")
    if options.token is not None and not TOKEN.fullmatch(options.token):
        raise ValueError("--token takes at least 16 letters, digits, - and _; leave it out, and vix serve makes one where one is needed")
    try:
        from vixformer.serve.app import create_app, runs_in
        from vixformer.serve.server import run
    except ImportError as error:
        raise ValueError(f'serving needs {error.name}: pip install "vixformer[serve]"') from None

    from vixformer.commands.report import benches_in

    count = runs_in(folders)
    alone = options.host in LOOPBACK
    token = options.token or (None if alone else secrets.token_urlsafe(24))
    machine = socket.gethostname()
    names = (machine, f"{machine}.local", options.host, *(name.strip() for name in options.names.split(",") if name.strip()))
    hosts = (*(() if alone else names), "127.0.0.1", "localhost", "[::1]", "::1")
    app = create_app(folders, options.memory_mb * 2**20, hosts, benches_in(words), addresses=not alone, token=token)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listening = socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        raise ValueError(f"port {options.port} of {options.host} cannot be had ({error.strerror}): give another --port or --host") from None
    with listening:
        shown = machine if options.host in ("0.0.0.0", "::") else f"[{options.host}]" if ":" in options.host else options.host
        link = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
        say(f"{count} runs at {link} (the API is described at /docs); Ctrl-C ends it")
        if not alone:
            say(
                "whoever has this address, with its token, can see the runs and ask the models. It is sent unencrypted: in a network that "
                "you do not trust, use --host 127.0.0.1 and an SSH tunnel. Other names of this machine are refused; --names adds some"
            )
        run(app, listening)
