"""Models to the hub and back, against a server here that speaks as much of its language as that takes."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

import vixformer as vix
from vixformer.cli import main
from vixformer.export.push import card
from vixformer.results.predictor import Predictor


class Hub(BaseHTTPRequestHandler):
    """Repositories in memory: create, ask how to upload, commit, list, read."""

    repositories: dict[str, dict[str, bytes]] = {}

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _reply(self, value: Any, code: int = 200, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        for name, text in {"Content-Length": str(len(body)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "secret" not in self.headers.get("Authorization", ""):
            return self._reply({"error": "Invalid username or password."}, 401)
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else f"me/{asked['name']}"
            self.repositories.setdefault(name, {})
            return self._reply({"url": f"http://{self.headers['Host']}/{name}", "name": name})
        if self.path == "/api/validate-yaml":
            return self._reply({"errors": [], "warnings": []})
        name = "/".join(self.path.split("/")[3:5])
        if "/preupload/" in self.path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            return self._reply({"files": files})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.repositories[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return self._reply(
            {"commitUrl": f"http://{self.headers['Host']}/{name}/commit/1", "commitOid": "1" * 40, "success": True}
        )

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            files = self.repositories.get("/".join(parts[2:4]))
            if files is None:
                return self._reply({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            if parts[4:5] == ["tree"]:
                entry = {"type": "file", "oid": "2" * 40}
                return self._reply([{**entry, "path": name, "size": len(data)} for name, data in files.items()])
            return self._reply(
                {"id": "/".join(parts[2:4]), "sha": "1" * 40, "siblings": [{"rfilename": name} for name in files]}
            )
        data = self.repositories.get("/".join(parts[:2]), {}).get("/".join(parts[4:]))
        if data is None:
            return self._reply({"error": "Entry not found"}, 404, X_Error_Code="EntryNotFound")
        return self._reply(data, X_Repo_Commit="1" * 40, ETag=f'"{hashlib.sha256(data).hexdigest()}"')

    do_HEAD = do_GET  # noqa: N815


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, dict[str, bytes]]]:
    import huggingface_hub.constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    Hub.repositories = {}
    for name, value in {
        "ENDPOINT": address,
        "HF_HUB_CACHE": str(tmp_path / "kept"),
        "HF_HUB_DISABLE_XET": True,
    }.items():
        monkeypatch.setattr(huggingface_hub.constants, name, value)
    template = huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE
    monkeypatch.setattr(
        huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{" + template.partition("/{")[2]
    )
    monkeypatch.setenv("HF_TOKEN", "secret")
    yield Hub.repositories
    server.shutdown()
    server.server_close()


def test_to_the_hub_and_back(runs: Path, hub: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    run = next(runs.glob("mixed-seed0*"))
    assert vix.push_to_hub(run, "me/clothes").endswith("/me/clothes")
    assert set(hub["me/clothes"]) == {
        "README.md",
        "config.json",
        "model.safetensors",
        "preprocessing.json",
        "recipe.json",
    }
    hub["me/clothes"] |= {"modeling.py": b"1 / 0", "pytorch_model.bin": b"cos\nsystem\n"}
    back, here = vix.from_pretrained("me/clothes"), Predictor.load(run)
    fetched = {path.name for path in (tmp_path / "kept").glob("*/snapshots/*/*")}
    assert fetched == {"config.json", "model.safetensors", "preprocessing.json", "recipe.json"}
    images = torch.randn(2, 1, 28, 28)
    assert torch.equal(back(images), here.model(images))
    assert Predictor.load("me/clothes").preprocessing == here.preprocessing


def test_a_card_says_what_the_run_says(runs: Path) -> None:
    run = next(runs.glob("mixed-seed0*"))
    summaries = [json.loads(path.read_text()) for path in sorted(runs.glob("mixed-seed*/summary.json"))]
    mean = sum(s["test_top1"] for s in summaries) / len(summaries)
    text = card(run, "me/clothes", "mit")
    assert text.startswith('---\nlicense: "mit"\n')
    assert f"Test top-1: {summaries[0]['test_top1']:.2f} % ({mean:.2f} ±" in text
    assert "% over 2 seeds) on 2,000 images" in text
    assert "`performer(kernel=relu, features=16) + softmax`" in text
    assert json.loads(text.split("```json\n")[1].split("```")[0])["train"]["seed"] == 0
    other = card(next(runs.glob("mixed-seed1*")), "me/clothes", "mit")
    assert f"Test top-1: {summaries[1]['test_top1']:.2f} % ({mean:.2f} ±" in other
    assert json.loads(other.split("```json\n")[1].split("```")[0])["train"]["seed"] == 1
    assert "was not recorded" in card(run / "best", "me/clothes", "mit")


def test_what_goes_wrong_is_a_sentence(
    runs: Path, hub: dict[str, dict[str, bytes]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = next(runs.glob("mixed-seed0*"))
    with pytest.raises(ValueError, match="not a local folder, and not found on the Hugging Face Hub"):
        vix.from_pretrained("me/nothing")
    monkeypatch.chdir(runs.parent)
    with pytest.raises(ValueError, match="has no model"):  # a misspelt folder is not looked for on the hub
        Predictor.load(f"{runs.name}/typo")
    with pytest.raises(ValueError, match='is called "owner/name"'):
        vix.push_to_hub(run, "clothes")
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(ValueError, match="the hub did not take me/clothes"):
        vix.push_to_hub(run, "me/clothes")
    assert hub == {}
    with pytest.raises(SystemExit):
        main(["predict", "me/nothing", "x.png"])
    assert "not a local folder" in capsys.readouterr().err
