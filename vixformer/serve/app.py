"""The server: a page, the JSON under it, and its documentation. Everything it needs is in it; nothing comes from a
network."""

from __future__ import annotations

import contextlib
import importlib
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, Response
from PIL import Image, ImageOps
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteError
from starlette.requests import ClientDisconnect

from vixformer.data.picture import MOST_BYTES, open_picture
from vixformer.jsonfile import Values
from vixformer.report.collect import collect, report_command
from vixformer.report.pictures import Picture, all_pictures, uri
from vixformer.report.whole import asset, html
from vixformer.results.evidence import MARGIN
from vixformer.results.groups import Group, find_runs
from vixformer.results.runs import HISTORY, SUMMARY
from vixformer.serve.guard import HEADERS, Guard, policy
from vixformer.serve.loaded import MAP_SIDE, Models
from vixformer.version import __version__

MOST_MODELS = 8
"""Models that one request may ask."""


class Problem(BaseModel):
    detail: str
    """One sentence: what is wrong and how to fix it."""


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
    inverted: bool
    """Whether the picture was inverted for this model, which knows light drawings on dark ground, or the reverse."""
    maps: dict[str, str]
    """PNG pictures as data: addresses."""


class Prediction(BaseModel):
    picture: str
    """What the first model saw, as a data: address."""
    answers: list[Answer]


class Version(BaseModel):
    version: str
    """Another one as soon as anything in the runs has changed."""


IMAGE_TYPES = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/bmp",
    "image/tiff",
    "image/x-portable-pixmap",
)
BODY = {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in IMAGE_TYPES}, "required": True}
PROBLEMS: dict[int | str, Values] = {code: {"model": Problem} for code in (400, 404, 413, 415, 422, 503, 507)}
GONE: dict[int | str, Values] = {503: {"model": Problem}}


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
WAITING = "There is no finished run here yet. The page shows each run as soon as it has finished."
DECODING = threading.Semaphore(2)
"""Pictures that are unpacked at the same time: each may take hundreds of megabytes for a moment."""


def create_app(
    folders: list[Path],
    most_bytes: int = 2**30,
    hosts: tuple[str, ...] = LOOPBACK,
    benches: Values | None = None,
    addresses: bool = False,
    token: str | None = None,
    margin: float = MARGIN,
    command: str = "",
) -> FastAPI:
    """`hosts` are the names that requests may use, and with `addresses` also any IP address. Without `token`, everybody
    has access. `command` is what makes the same page as a file."""
    app = FastAPI(
        title="vixformer", version=__version__, docs_url=None, redoc_url=None, description="Runs, and models to try."
    )
    models, reports = Models(folders, most_bytes), _Reports(folders, benches or {}, margin, command)

    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(Guard, hosts=hosts, addresses=addresses, token=token)

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("query", "body"))
        return JSONResponse({"detail": f"{where}: {first['msg'].lower()}"}, 422)

    @app.exception_handler(StarletteError)
    async def refused(_: Request, error: StarletteError) -> JSONResponse:
        told = {
            404: "there is nothing at this address; /docs lists what there is",
            405: "this address does not take this method",
        }
        detail = (
            told.get(error.status_code, error.detail)
            if error.detail in ("Not Found", "Method Not Allowed")
            else error.detail
        )
        return JSONResponse({"detail": detail}, error.status_code, headers=error.headers)

    @app.exception_handler(ValueError)
    async def unreadable(_: Request, error: ValueError) -> JSONResponse:
        """Runs or weights that were there when the server began."""
        return JSONResponse({"detail": str(error)}, 503)

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse(
            {"detail": f"the server failed ({type(error).__name__}); its terminal says more"}, 500, headers=HEADERS
        )

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        """The client left in the middle of an upload, so nobody receives this answer."""
        return Response(status_code=400)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(*_live())

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(*_docs())

    @app.get("/api/version")
    def version() -> Version:
        """A word that changes whenever the runs change. Cheap to ask for."""
        return Version(version=reports.version())

    @app.get("/api/report", responses=GONE)
    def report() -> Values:
        """What the page shows: answers, table, and figures as Vega-Lite definitions."""
        return reports.get()

    @app.get("/api/models", responses=GONE)
    def known() -> list[Model]:
        """The models that can be tried, of each data set the most accurate first."""
        return [
            Model(
                name=k.name, data=k.data, attention=k.attention, test_top1=k.top1,
                classes=list(k.preprocessing.classes),
                channels=k.preprocessing.channels, height=k.preprocessing.size[0], width=k.preprocessing.size[1],
            )
            for k in models.known().values()
        ]  # fmt: skip

    @app.post("/api/predict", responses=PROBLEMS, openapi_extra={"requestBody": BODY})
    async def predict(
        request: Request,
        model: Annotated[list[str], Query(min_length=1, max_length=MOST_MODELS, description="Names from /api/models.")],
        top: Annotated[
            int, Query(ge=1, le=100, description="Number of classes per answer, the most likely first.")
        ] = 5,
        maps: Annotated[bool, Query(description="Draw where the models look, which takes a little longer.")] = True,
        invert: Annotated[
            bool, Query(description="Invert the picture: for dark on light, where the model knows light on dark.")
        ] = False,
        as_is: Annotated[
            bool, Query(description="Never invert the picture, even for models that know light on dark.")
        ] = False,
    ) -> Prediction:
        """Classify a picture with one or more models. The body is the picture itself; its type may be
        application/octet-stream."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (*IMAGE_TYPES, "application/octet-stream"):
            raise HTTPException(
                415, f"the body must be a picture, {', '.join(IMAGE_TYPES)}, not {kind[:60] or 'nothing'}"
            )
        data = await _body(request)
        return await run_in_threadpool(_predict, models, data, list(dict.fromkeys(model)), top, maps, invert, as_is)

    return app


@cache
def _live() -> tuple[str, int, dict[str, str]]:
    text = html(None, asset("live.js", "vixformer.serve"), asset("try.html", "vixformer.serve"))
    return text, 200, policy(text)


@cache
def _docs() -> tuple[str, int, dict[str, str]]:
    text = asset("docs.html", "vixformer.serve").replace("/*STYLE*/", asset("style.css"))
    return text, 200, policy(text)


async def _body(request: Request) -> bytes:
    """Not more than is allowed ever lies in memory."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BYTES:
            raise HTTPException(413, f"the picture is larger than {MOST_BYTES // 2**20} MiB: send a smaller one")
    return bytes(data)


def _predict(
    models: Models, data: bytes, names: list[str], top: int, maps: bool, invert: bool, as_is: bool
) -> Prediction:
    try:
        stored = [models.get(name).preprocessing.stored for name in names]
    except KeyError as error:
        raise HTTPException(404, error.args[0]) from None
    try:
        with DECODING:
            picture = open_picture(data, size=(max(map(max, stored), default=0), MAP_SIDE))
    except ValueError as error:
        raise HTTPException(422, str(error)) from None
    picture = ImageOps.invert(picture) if invert else picture
    try:
        answers = [models.ask(name, picture, top, maps, as_is or invert) for name in names]
    except MemoryError as error:
        raise HTTPException(507, str(error)) from None
    seen = models.get(names[0]).preprocessing.pixels(ImageOps.invert(picture) if answers[0].inverted else picture)
    shown = Image.fromarray(seen[0].numpy() if len(seen) == 1 else seen.permute(1, 2, 0).numpy())
    return Prediction(
        picture=uri(shown),
        answers=[
            Answer(
                model=a.model, milliseconds=a.milliseconds,
                top=[Guess(label=g.label, probability=g.probability) for g in a.top],
                inverted=a.inverted, maps={name: uri(image) for name, image in a.maps.items()},
            )
            for a in answers
        ],
    )  # fmt: skip


class _Reports:
    """The report, made anew when the runs have changed. Pictures take seconds, so they are drawn beside and appear when
    they are done."""

    def __init__(self, folders: list[Path], benches: Values, margin: float, command: str) -> None:
        self.folders, self.benches, self.margin, self.lock = folders, benches, margin, threading.Lock()
        self.command = command or report_command([*map(str, folders)], margin)
        self.made: tuple[str, Values] | None = None
        self.pictures: list[Picture] = []
        self.drawn: tuple[str, ...] = ()
        """Finished runs that the pictures are of."""
        self.times_drawn = 0
        self.drawing: threading.Thread | None = None

    def version(self) -> str:
        stamps = []
        for path in (path for folder in self.folders for name in (HISTORY, SUMMARY) for path in folder.rglob(name)):
            with contextlib.suppress(OSError):
                stamps.append(path.stat().st_mtime_ns)
        return f"{len(stamps)}-{max(stamps, default=0)}-{self.times_drawn}"

    def get(self) -> Values:
        with self.lock:
            version = self.version()
            if self.made is None or self.made[0] != version:
                report = collect(
                    self.folders,
                    self.benches,
                    live=True,
                    command=self.command,
                    title="vixformer runs",
                    margin=self.margin,
                )
                self._draw(report.groups)
                told = replace(report, pictures=self.pictures, extra={"empty": WAITING, "version": version}).to_dict()
                self.made = version, json.loads(json.dumps(told, default=str))
            return self.made[1]

    def _draw(self, groups: Sequence[Group]) -> None:
        runs = tuple(str(run.folder) for group in groups for run in group.runs)
        if runs == self.drawn or (self.drawing is not None and self.drawing.is_alive()):
            return
        self.drawn = runs
        # it imports pandas, which altair looks at when another thread has it half imported
        importlib.import_module("sklearn.model_selection")

        def draw() -> None:
            self.pictures = all_pictures(groups)
            self.times_drawn += 1

        self.drawing = threading.Thread(target=draw, daemon=True)
        self.drawing.start()


def runs_in(folders: list[Path]) -> int:
    found = find_runs(folders)
    return sum(len(group.runs) for group in found.groups) + len(found.unfinished)
