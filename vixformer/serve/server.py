"""Limits on connections: their number, and how long each may stay idle or unfinished."""

# uvicorn has a time-out for connections between requests alone: one that sends nothing, or a byte a minute, is held for
# ever.

from __future__ import annotations

import asyncio
import json
import logging
import socket
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from vixformer.serve.guard import HEADERS

MOST = 256
"""Connections at a time; a quarter of the file descriptors this process may have, where those are fewer."""
HEADERS_SECONDS = 10.0
"""From the connection, or from the first byte of another request, to the end of its headers."""
SILENCE_SECONDS = 15.0
"""Between two pieces of a body."""
BODY_SECONDS = 300.0
"""For a whole body."""
IDLE_SECONDS = 15
"""Between requests."""
BACKLOG = 32
"""Connections that are accepted in one go, before any of them can be refused."""


def most_connections() -> int:
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return MOST
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if descriptors == resource.RLIM_INFINITY else max(4, min(MOST, descriptors // 4))


class Connection(H11Protocol):
    most = MOST

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.waits_for: str | None = None
        self.timers: list[asyncio.TimerHandle] = []
        self.used = self.loop.time()

    @property
    def idle(self) -> bool:
        """Whether no request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:
        if len(self.connections) >= self.most:
            others = [other for other in self.connections if isinstance(other, Connection) and other.idle]
            if not others:
                self.transport = transport
                self._refuse(503, "this server has no free connection: try again later")
                return
            oldest = min(others, key=lambda other: other.used)
            oldest.connections.discard(oldest)
            oldest.transport.abort()
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.flow is None:  # refused
            return
        super().data_received(data)
        self._watch(heard=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        if self.flow is not None:
            super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.used = self.loop.time()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not a valid HTTP request")

    def _watch(self, heard: bool = False) -> None:
        """One set of timers for what the connection waits for now; what it still waits for keeps its own."""
        state = self.conn.their_state
        between = self.timeout_keep_alive_task is not None  # which uvicorn ends itself
        waits_for = (
            "the body" if state is h11.SEND_BODY else "the headers" if state is h11.IDLE and not between else None
        )
        if waits_for != self.waits_for:
            self._forget()
            self.waits_for = waits_for
            if waits_for == "the headers":
                self._in(HEADERS_SECONDS)
            if waits_for == "the body":
                self._in(BODY_SECONDS)
                self._in(SILENCE_SECONDS)
        elif waits_for == "the body" and heard:
            self.timers.pop().cancel()
            self._in(SILENCE_SECONDS)

    def _in(self, seconds: float) -> None:
        self.timers.append(self.loop.call_later(seconds, self._give_up))

    def _forget(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers, self.waits_for = [], None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_at_reader(None)

    def _look_at_reader(self, before: int | None) -> None:
        """Whether the client still reads the answer."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            self.transport.abort()
        elif left and not self.transport.is_closing():
            self.loop.call_later(SILENCE_SECONDS, self._look_at_reader, left)

    def _give_up(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(408, f"this server waited too long for {self.waits_for} of the request")
        else:
            self.transport.close()  # the answer is there already

    def _refuse(self, code: int, says: str) -> None:
        """Without the application: there may be no request yet that it could answer."""
        body = json.dumps({"detail": says}).encode()
        fields = {**HEADERS, "Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.transport.write(f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\n{head}\r\n".encode() + body)
        self._forget()
        self.transport.close()


class _Quiet(logging.Filter):
    """Malformed requests are not worth a warning."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(
            ("Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket")
        )


def server(app: ASGIApp) -> uvicorn.Server:
    logging.getLogger("uvicorn.error").addFilter(_Quiet())
    Connection.most = most_connections()
    config = uvicorn.Config(
        app, http=Connection, ws="none", log_level="warning", backlog=BACKLOG, timeout_keep_alive=IDLE_SECONDS,
        server_header=False,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    return uvicorn.Server(config)


def run(app: ASGIApp, listening: socket.socket) -> None:
    # connections inherit this; without it, the second part of an answer waits 40 ms for a delayed acknowledgment
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server(app).run(sockets=[listening])
