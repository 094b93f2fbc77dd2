"""Serve a live page of runs, on which you can try their models."""

from __future__ import annotations

import errno
import re
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from vixformer.commands.flags import Points, RunsOrBench
from vixformer.options import words
from vixformer.results.evidence import MARGIN
from vixformer.tables import say

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN = re.compile(r"[\w-]{16,}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Options:
    runs: tuple[RunsOrBench, ...] = words(("runs",))
    """Folders of runs, and JSON files of `vix bench`."""
    host: str = "127.0.0.1"
    """Address to listen on. With 0.0.0.0, other machines that have the token can connect."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes any free port."""
    memory_mb: PositiveInt = 1024
    """Memory for the weights of loaded models, in MiB. Beyond it, the least recently used models are unloaded."""
    token: str | None = None
    """Token that every visitor needs, at least 16 characters. Left out: none on 127.0.0.1, a generated one on any other
    host."""
    names: str = ""
    """Other names of this machine that visitors may use, separated by commas. Its host name and IP addresses always
    work."""
    margin: Points = MARGIN
    """Difference of top-1, in points, that matters to you: verdicts are against this margin."""


def run(options: Options) -> None:
    words = options.runs
    folders = [Path(word) for word in words if not word.endswith(".json")]
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f'{folder} is no folder of runs: "vix train quick/exact --out {folder}" makes one')
    if options.token is not None and not TOKEN.fullmatch(options.token):
        raise ValueError(
            f"--token takes at least 16 letters, digits, - and _, not these {len(options.token)} characters: leave it"
            " out, and vix serve generates one if it needs one"
        )
    try:
        from vixformer.serve.app import create_app, runs_in
        from vixformer.serve.server import run as serve
    except ImportError as error:
        raise ValueError(f'serving needs {error.name}: pip install "vixformer[serve]"') from None

    from vixformer.commands.report import benches_in
    from vixformer.report.collect import report_command

    count = runs_in(folders)
    alone = options.host in LOOPBACK
    token = options.token or (None if alone else secrets.token_urlsafe(24))
    machine = socket.gethostname()
    names = (
        machine,
        f"{machine}.local",
        options.host,
        *(name.strip() for name in options.names.split(",") if name.strip()),
    )
    hosts = (*(() if alone else names), "127.0.0.1", "localhost", "[::1]", "::1")
    app = create_app(
        folders,
        options.memory_mb * 2**20,
        hosts,
        benches_in(words),
        addresses=not alone,
        token=token,
        margin=options.margin,
        command=report_command(words, options.margin),
    )
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listening = socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        place = f"port {options.port} of {options.host}"
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"{place} is taken by another program: give another --port, or --port 0 for any free one"
            ) from None
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise ValueError(f"cannot listen on {place}: {reason}; give another --port or --host") from None
    with listening:
        shown = (
            machine
            if options.host in ("0.0.0.0", "::")
            else f"[{options.host}]"
            if ":" in options.host
            else options.host
        )
        link = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
        say(f"{count} runs at {link} (the API is described at /docs); Ctrl-C ends it")
        if not alone:
            say(
                "anyone who has this link can see the runs and use the models. The token is sent unencrypted: on a"
                " network that you do not trust, use --host 127.0.0.1 and an SSH tunnel. Requests for other names of"
                " this machine are refused; --names adds names"
            )
        serve(app, listening)
