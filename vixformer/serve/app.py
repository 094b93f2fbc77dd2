"""The server: a page, the JSON under it, and its documentation. Everything it needs is in it; nothing comes from a network."""

from __future__ import annotations

import base64
import io
import json
import threading
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from PIL import Image
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteError
from starlette.middleware.trustedhost import TrustedHostMiddleware

from vixformer.data.picture import MOST_BYTES, open_picture
from vixformer.report.collect import collect
from vixformer.report.page import asset, html
from vixformer.results.groups import find_runs
from vixformer.serve.models import Models
from vixformer.version import __version__

MOST_MODELS = 8
"""Models one request may ask."""
HEADERS = {
    # vega compiles its expressions with Function
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Problem(BaseModel):
    detail: str
    """One sentence: what was wrong and what would be right."""


class Model(BaseModel):
    name: str
    data: str
    attention: str
    test_top1: float
    classes: list[str]
    channels: int
    height: int
    width: int


class Guess(BaseModel):
    label: str
    probability: float = Field(ge=0, le=1.0001)


class Answer(BaseModel):
    model: str
    top: list[Guess]
    milliseconds: float
    maps: dict[str, str]
    """PNG pictures as data: addresses."""


class Prediction(BaseModel):
    picture: str
    """What the first model saw, as a data: address."""
    answers: list[Answer]


class Version(BaseModel):
    version: str
    """Another one as soon as anything in the runs has changed."""


IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff")
BODY = {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in IMAGE_TYPES}, "required": True}
PROBLEMS: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 404, 413, 415, 422, 507)}


def create_app(folders: list[Path], most_bytes: int = 2**30, hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")) -> FastAPI:
    app = FastAPI(title="vixformer", version=__version__, docs_url=None, redoc_url=None, description="Runs, and models to try.")
    models, reports = Models(folders, most_bytes), _Reports(folders)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body"))
        return JSONResponse({"detail": f"{where}: {first['msg'].lower()}"}, 422)

    @app.exception_handler(StarletteError)
    async def refused(_: Request, error: StarletteError) -> JSONResponse:
        told = {404: "there is nothing at this address; /docs lists what there is", 405: "this address does not take this method"}
        detail = told.get(error.status_code, error.detail) if error.detail in ("Not Found", "Method Not Allowed") else error.detail
        return JSONResponse({"detail": detail}, error.status_code, headers=error.headers)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        return html(None, asset("live.js", "vixformer.serve"), asset("try.html", "vixformer.serve"))

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    def docs() -> str:
        return asset("docs.html", "vixformer.serve").replace("/*STYLE*/", asset("style.css"))

    @app.get("/api/version")
    def version() -> Version:
        """Changes whenever the runs do: ask often, it is cheap."""
        return Version(version=reports.version())

    @app.get("/api/report")
    def report() -> dict[str, Any]:
        """What the page shows: table, figures as Vega-Lite definitions, sentences."""
        return reports.get()

    @app.get("/api/models")
    def known() -> list[Model]:
        """Models that can be asked, best first."""
        return [
            Model(
                name=k.name, data=k.data, attention=k.attention, test_top1=k.top1, classes=list(k.preprocessing.classes),
                channels=k.preprocessing.channels, height=k.preprocessing.size[0], width=k.preprocessing.size[1],
            )
            for k in models.known().values()
        ]  # fmt: skip

    @app.post("/api/predict", responses=PROBLEMS, openapi_extra={"requestBody": BODY})
    async def predict(
        request: Request,
        model: Annotated[list[str], Query(min_length=1, max_length=MOST_MODELS, description="Names from /api/models.")],
        top: Annotated[int, Query(ge=1, le=100)] = 5,
        maps: bool = True,
        invert: Annotated[
            bool, Query(description="Dark becomes light: for dark ink on white paper, where the model knows light on dark.")
        ] = False,
    ) -> Prediction:
        """What models take a picture for. The body is the picture itself, in any of the formats that Pillow reads and the list names."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (*IMAGE_TYPES, "application/octet-stream"):
            raise HTTPException(415, f"the body must be a picture, {', '.join(IMAGE_TYPES)}, not {kind[:60] or 'nothing'}")
        data = await _body(request)
        for name in model:
            try:
                models.get(name)
            except KeyError as error:
                raise HTTPException(404, error.args[0]) from None
        return await run_in_threadpool(_predict, models, data, list(dict.fromkeys(model)), top, maps, invert)

    return app


async def _body(request: Request) -> bytes:
    """Not more than is allowed ever lies in memory."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise HTTPException(413, f"the picture is larger than {MOST_BYTES // 2**20} MiB: send a smaller one")
    return bytes(data)


def _predict(models: Models, data: bytes, names: list[str], top: int, maps: bool, invert: bool) -> Prediction:
    try:
        picture = open_picture(data)
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    try:
        answers = [models.ask(name, picture, top, maps, invert) for name in names]
    except MemoryError as error:
        raise HTTPException(507, str(error)) from None
    seen = models.get(names[0]).preprocessing.pixels(picture)
    shown = Image.fromarray(seen[0].numpy() if len(seen) == 1 else seen.permute(1, 2, 0).numpy())
    return Prediction(
        picture=_uri(shown),
        answers=[
            Answer(
                model=a.model, milliseconds=a.milliseconds, top=[Guess(label=g.label, probability=g.probability) for g in a.top],
                maps={name: _uri(image) for name, image in a.maps.items()},
            )
            for a in answers
        ],
    )  # fmt: skip


def _uri(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


class _Reports:
    """The report, made anew when the runs have changed."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders, self.lock = folders, threading.Lock()
        self.made: tuple[str, dict[str, Any]] | None = None

    def version(self) -> str:
        stamps = []
        for folder in self.folders:
            for name in ("history.jsonl", "summary.json"):
                for path in (folder / name, *folder.glob(f"*/{name}")):
                    try:
                        stamps.append(path.stat().st_mtime_ns)
                    except OSError:
                        continue
        return f"{len(stamps)}-{max(stamps, default=0)}"

    def get(self) -> dict[str, Any]:
        with self.lock:
            version = self.version()
            if self.made is None or self.made[0] != version:
                report = collect(
                    self.folders, {}, live=True, command=f"vix report {' '.join(map(str, self.folders))}", title="vixformer runs"
                )
                self.made = version, json.loads(json.dumps({**report.to_dict(), "version": version}, default=str))
            return self.made[1]


def runs_in(folders: list[Path]) -> int:
    found = find_runs(folders)
    return sum(len(group.runs) for group in found.groups) + len(found.unfinished)
