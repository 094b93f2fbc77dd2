"""Downloads, against a server of our own that cuts connections and sends the wrong thing."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from vixformer.data.dataset import Download
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
    with pytest.raises(ValueError, match="resumes there"):
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


def packed(kind: str) -> bytes:
    """Two members; the second one is what is wrong."""
    buffer = io.BytesIO()
    if kind.startswith("zip"):
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as content:
            content.writestr("pictures/a.bin", b"abc")
            content.writestr("pictures/b.bin", bytes(range(256)) * 100)
        data = bytearray(buffer.getvalue())
        second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)  # its entry in the directory
        local = int.from_bytes(data[second + 42 : second + 46], "little")
        if kind == "zip with a password":
            for flags in (second + 8, local + 6):
                data[flags] |= 1
        if kind == "zip, larger than declared":
            for size in (second + 24, local + 22):
                data[size : size + 4] = (100).to_bytes(4, "little")
        if kind == "zip that claims 4 GiB times a million":
            extra = b"\1\0\x08\0" + (2**52).to_bytes(8, "little")  # ZIP64
            name = second + 46 + len("pictures/b.bin")
            data[second + 24 : second + 28] = b"\xff" * 4
            data[second + 30 : second + 32] = len(extra).to_bytes(2, "little")
            data[name:name] = extra
            end = data.index(b"PK\5\6")
            data[end + 12 : end + 16] = (int.from_bytes(data[end + 12 : end + 16], "little") + len(extra)).to_bytes(
                4, "little"
            )
        return bytes(data[: len(data) // 2] if kind == "zip, cut" else data)
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in (("a.bin", b"abc"), ("b.bin", os.urandom(30_000))):
            info = tarfile.TarInfo(f"pictures/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if kind == "tar, with a link out of it":
            info = tarfile.TarInfo("pictures/c.bin")
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(info)
    data = buffer.getvalue()
    return {"tar, cut": data[: len(data) // 2], "tar, encrypted": os.urandom(3000)}.get(kind, data)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("zip with a password", "is encrypted, password required"),
        ("zip, larger than declared", r"damaged or cut short \(Bad CRC"),
        ("zip that claims 4 GiB times a million", "needs 4,294,967,296 MiB and"),
        ("zip, cut", "damaged or cut short"),
        ("tar, cut", "damaged or cut short"),
        ("tar, encrypted", "damaged or cut short"),
        ("tar, with a link out of it", "damaged or cut short"),
    ],
)
def test_archives_that_cannot_be_unpacked_leave_nothing(kind: str, says: str, tmp_path: Path) -> None:
    content = packed(kind)
    name = "x.zip" if kind.startswith("zip") else "x.tar.gz"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"cannot unpack {tmp_path}/sub/{name}: .*{says}"):
        fetch(item("http://127.0.0.1:9", name, content, unpack=True), tmp_path)
    assert [path.name for path in (tmp_path / "sub").iterdir()] == [name]


def test_a_link_in_place_of_a_part_is_not_followed(address: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / "sub" / "file.bin.part").symlink_to(tmp_path / "victim")
    assert fetch(item(address), tmp_path).read_bytes() == CONTENT
    assert (tmp_path / "victim").read_bytes() == b"mine"
