"""Downloads, against a server of our own that cuts connections and sends the wrong thing."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from vixformer.data.base import Download
from vixformer.data.download import fetch, get
from vixformer.data.mini import FashionMini

CONTENT = bytes(range(256)) * 4000


class Handler(BaseHTTPRequestHandler):
    cuts: ClassVar[int] = 0
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        if self.path.startswith("/missing"):
            self.send_error(404)
            return
        content = archive() if self.path.endswith(".tar.gz") else CONTENT
        wanted = self.headers.get("Range")
        type(self).asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if type(self).cuts > 0:
            type(self).cuts -= 1
            body = body[: len(body) // 3]
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        info = tarfile.TarInfo("pictures/a.bin")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"abc"))
    return buffer.getvalue()


@pytest.fixture
def address() -> Iterator[str]:
    Handler.cuts, Handler.asked = 0, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def item(address: str, name: str = "file.bin", content: bytes = CONTENT, **options: bool) -> Download:
    return Download(f"{address}/{name}", f"md5:{hashlib.md5(content).hexdigest()}", "sub", **options)


def test_fetched_once_with_progress(address: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetch(item(address), tmp_path, lambda name, done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    fetch(item(address), tmp_path)
    assert len(Handler.asked) == 1
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_a_cut_connection_is_resumed(address: str, tmp_path: Path) -> None:
    Handler.cuts = 2
    assert fetch(item(address), tmp_path).read_bytes() == CONTENT
    assert Handler.asked[0] is None
    assert Handler.asked[1] == f"bytes={len(CONTENT) // 3}-"
    assert len(Handler.asked) == 3


def test_what_came_is_kept_for_the_next_command(address: str, tmp_path: Path) -> None:
    Handler.cuts = 1
    with pytest.raises(ValueError, match="goes on from there"):
        fetch(item(address), tmp_path, tries=1)
    assert not (tmp_path / "sub" / "file.bin").exists()
    assert fetch(item(address), tmp_path).read_bytes() == CONTENT
    assert Handler.asked[-1] is not None


def test_a_wrong_digest_leaves_nothing(address: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not the file it should be.*nothing was kept"):
        fetch(item(address, content=b"other"), tmp_path)
    assert not list((tmp_path / "sub").iterdir())


def test_an_archive_is_unpacked_whole(address: str, tmp_path: Path) -> None:
    fetch(item(address, "x.tar.gz", archive(), unpack=True), tmp_path)
    assert (tmp_path / "sub" / "pictures" / "a.bin").read_bytes() == b"abc"


def test_answers_that_are_no_file(address: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the server answers 404"):
        fetch(item(address, "missing"), tmp_path)
    with pytest.raises(ValueError, match="cannot get"):
        fetch(Download("http://127.0.0.1:9/x", "md5:0"), tmp_path, tries=1)
    with pytest.raises(ValueError, match="fashion-mini has no files to get"):
        get(FashionMini(tmp_path))
