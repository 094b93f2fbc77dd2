"""`vix serve` among strangers: connections that are held, requests that do not end, other names, no token."""

from __future__ import annotations

import contextlib
import functools
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from vixformer.cli import main

TOKEN = "a-token-for-the-tests"
HURRIED = """
import resource, sys
few = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))
from vixformer.cli import main
from vixformer.serve import server
server.HEADERS_SECONDS, server.SILENCE_SECONDS, server.BODY_SECONDS = 2.0, 0.5, 1.5
main(sys.argv[1:])
"""
DESCRIPTORS = 128
PAGE = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode()
UPLOAD = (
    b"POST /api/predict?model=x HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 1000\r\n"
    b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
)

get = functools.partial(httpx.get, timeout=60)


@dataclass(frozen=True)
class Running:
    process: subprocess.Popen[str]
    url: str
    complaints: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def version(self) -> httpx.Response:
        return get(f"{self.url}/api/version", headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The command, for all of these tests, with few file descriptors and little patience."""
    folder = tmp_path_factory.mktemp("strangers")

    complaints = folder / "stderr"
    words = ["serve", str(folder), "--host", "0.0.0.0", "--port", "0", "--token", TOKEN, "--names", "runs.example"]
    with complaints.open("w") as file:
        command = [sys.executable, "-u", "-c", HURRIED, str(DESCRIPTORS), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    assert f"/?token={TOKEN}" in said, complaints.read_text()
    port = said.partition("/?token")[0].rpartition(":")[2]
    assert "unencrypted" in process.stdout.readline()
    running = Running(process, f"http://127.0.0.1:{port}", complaints)
    while True:
        try:
            running.version()
            break
        except httpx.TransportError:
            time.sleep(0.05)
    yield running
    process.terminate()
    process.wait(20)
    process.stdout.close()


def everything(connection: socket.socket) -> bytes:
    """What the server sends until it closes."""
    data = b""
    while block := connection.recv(1 << 16):
        data += block
    return data


def test_no_answer_waits_for_an_acknowledgment(running: Running) -> None:
    """The system delays those by 40 ms on a connection that is kept."""
    with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        taken = []
        for _ in range(20):
            began = time.perf_counter()
            client.get(f"{running.url}/api/version").raise_for_status()
            taken.append(time.perf_counter() - began)
    assert min(taken[1:]) < 0.03


def test_two_hundred_idle_connections_keep_nobody_out(running: Running) -> None:
    idle = [running.connect() for _ in range(200)]
    assert running.version().status_code == 200
    with contextlib.suppress(ConnectionError):
        assert idle[0].recv(1) == b""  # put away for another, and not because it was late: nothing is said
    for connection in idle:
        connection.close()
    assert running.complaints.read_text() == ""


def test_more_than_it_can_bear_are_told_so(running: Running) -> None:
    """All of them in the middle of an upload, so that none may be put away for another."""
    busy = [running.connect() for _ in range(DESCRIPTORS // 4)]
    for connection in busy:
        connection.sendall(UPLOAD.removesuffix(b"\r\n") + b"Expect: 100-continue\r\n\r\n")
    for connection in busy:
        assert connection.recv(1 << 10).startswith(b"HTTP/1.1 100 Continue")
    with running.connect() as late:
        answer = everything(late)
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"try again later" in answer
    assert b"Content-Security-Policy: default-src 'none'" in answer
    for connection in busy:
        connection.close()


@pytest.mark.parametrize(
    ("start", "piece", "waits_for"),
    [
        (b"", b"", "the headers"),
        (PAGE, b"\r\nx: y", "the headers"),
        (UPLOAD, b"", "the body"),
        (UPLOAD, b"x", "the body"),
    ],
    ids=["nothing", "a header at a time", "no body", "a byte at a time"],
)
def test_requests_that_do_not_end(start: bytes, piece: bytes, waits_for: str, running: Running) -> None:
    with running.connect() as connection:
        connection.settimeout(0.1)
        connection.sendall(start)
        answer, until = b"", time.monotonic() + 20
        while time.monotonic() < until:
            try:
                block = connection.recv(1 << 16)
                if not block:
                    break
                answer += block
            except TimeoutError:
                connection.sendall(piece)
            except ConnectionError:
                break
        else:
            pytest.fail("the connection is still open")
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert f"waited too long for {waits_for}".encode() in answer
    assert running.complaints.read_text() == ""


def test_a_reader_that_does_not_read_is_given_up(running: Running) -> None:
    with running.connect() as connection:
        ends = [f"0100007F:{port:04X}" for port in (running.port, connection.getsockname()[1])]

        def held() -> bool:
            """A socket that no process has any more, and whose data the system still offers, has the number 0."""
            rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
            return any(row[1:3] == ends and row[9] != "0" for row in rows)

        # answers of 20 MB: more than the system keeps
        connection.sendall(20 * (PAGE.replace(b"/api/version", b"/") + b"\r\n\r\n"))
        until = time.monotonic() + 60
        while not held():  # on a busy machine the answers take a while
            assert time.monotonic() < until
            time.sleep(0.01)
        while held():
            assert time.monotonic() < until
            time.sleep(0.02)
    assert running.complaints.read_text() == ""


def test_a_client_that_leaves_in_the_middle_of_an_upload(running: Running) -> None:
    for _ in range(5):
        with running.connect() as connection:
            connection.sendall(UPLOAD + b"x" * 100)
    assert running.version().status_code == 200
    assert running.complaints.read_text() == ""


def test_what_is_no_request(running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Content-Security-Policy: default-src 'none'" in answer
    assert running.complaints.read_text() == ""


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1"]
)
def test_other_names_are_refused(host: str, running: Running) -> None:
    reply = get(f"{running.url}/", headers={"Host": host, "Authorization": f"Bearer {TOKEN}"})
    assert reply.status_code == 400
    assert reply.json()["detail"] == f"this server answers to {socket.gethostname()}, not to {host}"
    assert "default-src 'none'" in reply.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "192.0.2.7:8000", "[2001:db8::1]:8000", "LOCALHOST", "runs.example", socket.gethostname()]
)
def test_its_own_names_are_taken(host: str, running: Running) -> None:
    assert (
        get(f"{running.url}/api/version", headers={"Host": host, "Authorization": f"Bearer {TOKEN}"}).status_code == 200
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"headers": {"Authorization": f"Bearer {TOKEN[:-1]}"}},
        {"headers": {"Authorization": f"Basic {TOKEN}"}},
        {"headers": {"Authorization": "Bearer é".encode("latin1")}},
        {"params": {"token": ""}},
        {"params": {"token": "wrong"}},
        {"headers": {"Cookie": f'vix-00000000={TOKEN}; ;;="'}},
    ],
    ids=["nothing", "all but a letter", "another scheme", "no ASCII", "empty", "wrong", "another cookie"],
)
@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/api/version", "/api/report", "/nothing"])
def test_without_the_token_there_is_nothing(path: str, given: dict[str, Any], running: Running) -> None:
    reply = get(running.url + path, **given)
    assert reply.status_code == 401
    assert reply.json()["detail"].startswith("this server needs its token: ")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "set-cookie" not in reply.headers


def test_the_link_gives_a_cookie_and_hides_the_token(running: Running) -> None:
    with httpx.Client(timeout=60) as client:
        reply = client.get(f"{running.url}/docs?token={TOKEN}&a=b", headers={"Accept": "text/html"})
        assert (reply.status_code, reply.headers["location"]) == (303, "./docs?a=b")
        cookie = reply.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        page = client.get(f"{running.url}/")
        assert page.status_code == 200
        assert "unsafe" not in page.headers["content-security-policy"]
    assert get(f"{running.url}/api/version?token={TOKEN}").status_code == 200


@pytest.mark.parametrize("token", ["short", "a token with blanks in it", "é" * 20])
def test_a_token_is_long_enough_and_fits_into_an_address(
    token: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["serve", str(tmp_path), "--token", token])
    assert "--token takes at least 16 letters, digits, - and _" in capsys.readouterr().err
