"""`vix serve`: the API with good and bad requests, many at a time, and Try it in a real browser."""

from __future__ import annotations

import functools
import io
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from tests.data.test_pictures import bomb, encoded
from tests.training.test_loop import tiny
from vixformer.cli import main
from vixformer.experiments.compare import compare
from vixformer.report.pictures import image_of
from vixformer.serve.app import create_app
from vixformer.serve.server import server as serving
from vixformer.training.loop import train
from vixformer.training.parts import load_parts

EXACT, RELU = "softmax", "performer(kernel=relu, features=16)"

get = functools.partial(httpx.get, timeout=60)  # other tests may have the cores


@dataclass(frozen=True)
class Served:
    url: str
    folder: Path
    models: list[str]

    def ask(self, data: bytes, kind: str = "image/png", **query: Any) -> httpx.Response:
        query = {"model": self.models[0], **query}
        return httpx.post(f"{self.url}/api/predict", params=query, content=data, headers={"Content-Type": kind}, timeout=60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    compare({name: tiny(attention=a, epochs=2, fraction=0.1) for name, a in (("exact", EXACT), ("relu", RELU))}, folder)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    server = serving(create_app([folder], margin=2.0))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    url = f"http://127.0.0.1:{port}"
    yield Served(url, folder, [m["name"] for m in get(f"{url}/api/models").json()])
    server.should_exit = True
    thread.join(10)


def test_the_live_page_has_verdicts(served: Served) -> None:
    report = get(f"{served.url}/api/report").json()
    ((line,),) = report["sentences"].values()
    assert line.startswith("Open: whether relu differs from exact: ")  # one seed decides nothing
    at = [column["name"] for column in report["columns"]].index("verdict")
    assert sorted(row["cells"][at]["show"] for row in report["rows"]) == ["", "open"]
    assert all("Verdicts are against a margin of 2 points" in told for told in report["explained"].values())
    (conclusion,) = report["conclusions"]
    assert conclusion["verdict"] == "open"
    assert "one seed" in conclusion["facts"]["Verdict"]


@pytest.fixture(scope="module")
def sneaker(served: Served) -> tuple[bytes, str]:
    """A test image that the best model takes for what it is."""
    from vixformer.backbones.backbone import from_pretrained

    recipe = tiny(fraction=0.1)
    parts = load_parts(recipe, torch.device("cpu"))
    model = from_pretrained(next(served.folder.glob(f"{served.models[0]}-seed*")) / "best")
    images, labels = next(parts.test.plain())
    i = int(torch.nonzero(model(images).argmax(-1) == labels)[0])
    picture = image_of(parts.test.images.pixels[parts.test.images.rows[i]])
    return encoded(picture), parts.classes[int(labels[i])]


def test_a_picture_is_classified_as_torch_does_it(served: Served, sneaker: tuple[bytes, str]) -> None:
    data, label = sneaker
    reply = served.ask(data, model=served.models, top=3)
    assert reply.status_code == 200
    answers = reply.json()["answers"]
    assert [a["model"] for a in answers] == served.models
    assert answers[0]["top"][0]["label"] == label
    assert len(answers[0]["top"]) == 3
    for answer in answers:
        assert answer["milliseconds"] > 0
        assert set(answer["maps"]) == {"last layer", "rollout"}
        assert all(uri.startswith("data:image/png;base64,") for uri in answer["maps"].values())
    assert served.ask(data, maps=False).json()["answers"][0]["maps"] == {}
    upside = served.ask(data, invert=True).json()["answers"][0]["top"]
    assert upside != answers[0]["top"]
    with Image.open(io.BytesIO(data)) as picture:
        dark_on_light = encoded(ImageOps.invert(picture.convert("L")))
    (turned,), (left,) = (served.ask(dark_on_light, as_is=as_is).json()["answers"] for as_is in (False, True))
    assert (turned["inverted"], left["inverted"], answers[0]["inverted"]) == (True, False, False)
    assert turned["top"] == served.ask(data).json()["answers"][0]["top"] != left["top"]


@pytest.mark.parametrize(
    "picture",
    [
        encoded(Image.new("RGB", (1, 1))),
        encoded(Image.new("CMYK", (50, 20)), "JPEG"),
        encoded(Image.fromarray(np.full((30, 30), 30000, np.uint16))),
        encoded(Image.new("RGB", (9, 9)), "GIF", save_all=True, append_images=[Image.new("RGB", (9, 9), "red")]),
        encoded(Image.new("RGBA", (400, 3), (1, 2, 3, 4)), "WEBP"),
    ],
    ids=["one pixel", "cmyk", "16 bit", "animated", "a strip with alpha"],
)
def test_unusual_pictures_are_handled(served: Served, picture: bytes) -> None:
    assert served.ask(picture, "application/octet-stream").status_code == 200


@pytest.mark.parametrize(
    ("data", "kind", "query", "status", "says"),
    [
        (b"no picture", "image/png", {}, 422, "is no image that can be read"),
        (b"", "image/png", {}, 422, "is no image"),
        (encoded(Image.effect_noise((64, 64), 50))[:-400], "image/png", {}, 422, "is no image"),
        (bomb(30_000, 30_000), "image/png", {}, 422, "too large"),
        (bomb(7_500, 7_500), "image/png", {}, 422, "7500 x 7500 pixels"),
        (b"\0" * (21 * 2**20), "image/png", {}, 413, "larger than 20 MiB"),
        (b"{}", "application/json", {}, 415, "the body must be a picture"),
        (encoded(Image.new("L", (8, 8))), "image/png", {"model": "../../etc/passwd"}, 404, "there is no model"),
        (encoded(Image.new("L", (8, 8))), "image/png", {"model": ["x"] * 9}, 422, "model: "),
        (encoded(Image.new("L", (8, 8))), "image/png", {"model": "nothing"}, 404, "there is no model"),
        (encoded(Image.new("L", (8, 8))), "image/png", {"top": 0}, 422, "top: "),
        (encoded(Image.new("L", (8, 8))), "image/png", {"maps": "perhaps"}, 422, "maps: "),
    ],
)
def test_bad_requests_get_a_sentence(served: Served, data: bytes, kind: str, query: dict[str, Any], status: int, says: str) -> None:
    reply = served.ask(data, kind, **query)
    assert reply.status_code == status
    assert says in reply.json()["detail"]


def test_other_addresses(served: Served) -> None:
    assert get(f"{served.url}/nothing").json()["detail"].startswith("there is nothing at this address")
    reply = get(f"{served.url}/api/predict")
    assert reply.status_code == 405
    assert reply.headers["allow"] == "POST"
    strange = get(f"{served.url}/", headers={"Host": "evil.example"})  # a name that was made to point here
    assert strange.status_code == 400
    assert strange.json()["detail"] == "this server answers to 127.0.0.1, not to evil.example"
    for reply in (get(f"{served.url}/"), get(f"{served.url}/nothing"), strange, served.ask(b"", "a/b")):
        assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert get(f"{served.url}/openapi.json").json()["paths"].keys() == {"/api/version", "/api/report", "/api/models", "/api/predict"}


def test_its_own_failures_carry_the_policy_too(tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    app = create_app([tmp_path])
    app.get("/fails")(lambda: 1 / 0)
    reply = TestClient(app, base_url="http://localhost", raise_server_exceptions=False).get("/fails")
    assert reply.status_code == 500
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_models_are_put_away_when_memory_runs_out(served: Served) -> None:
    from vixformer.serve.loaded import Models

    one = Models([served.folder], 1)
    with pytest.raises(MemoryError, match="of weights"):
        one.ask(next(iter(one.known())), Image.new("L", (28, 28)))
    sizes = [known.bytes for known in one.known().values()]
    small = Models([served.folder], max(sizes) + 1)
    for name in small.known():
        small.ask(name, Image.new("L", (28, 28)))
        assert list(small.loaded) == [name]


def test_many_clients_and_nonsense_between_them(served: Served, sneaker: tuple[bytes, str]) -> None:
    """A tenth of what `python -m benchmarks.serve` does."""
    data, label = sneaker

    def one(i: int) -> int:
        if i % 20 == 0:
            return served.ask(data[: 50 + i]).status_code
        reply = served.ask(data, maps=i % 3 == 0)
        assert reply.json()["answers"][0]["top"][0]["label"] == label
        return reply.status_code

    with ThreadPoolExecutor(8) as clients:
        codes = list(clients.map(one, range(200)))
    assert codes.count(422) == 10
    assert codes.count(200) == 190


def test_nothing_that_the_schema_allows_breaks_it(served: Served) -> None:
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    pictures = st.builds(
        lambda size, mode, colour: encoded(Image.new(mode, size, colour)),
        st.tuples(st.integers(1, 40), st.integers(1, 40)),
        st.sampled_from(["L", "RGB"]),
        st.integers(0, 255),
    )
    for kind in ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/tiff"):
        schemathesis.openapi.media_type(kind, pictures)
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")

    calls: list[str] = []
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # pyright: ignore[reportAttributeAccessIssue]

        @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            case.call_and_validate()

        check()
        calls.append(operation.label)
    assert len(calls) == 4


def test_the_page_moves_while_a_run_goes_on_and_tries_models(
    served: Served, sneaker: tuple[bytes, str], browser: Any, tmp_path: Path
) -> None:
    data, label = sneaker
    window = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    said: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.on("request", lambda request: said.append(request.url) if not request.url.startswith((served.url, "data:", "blob:")) else None)
    window.goto(served.url)
    rows = window.locator("#table tbody tr")
    rows.first.wait_for()
    assert rows.count() == 2
    window.locator("#pareto .chart svg").wait_for()
    for summary in window.locator("summary").all():
        summary.click()
    window.locator("#chart-confusion svg").wait_for()
    assert window.locator("figure .error").count() == 0
    window.locator(".chart svg .mark-rect path").nth(60).hover(position={"x": 4, "y": 4})  # beside its number
    tip = window.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert tip.evaluate("element => getComputedStyle(element).position") == "fixed"  # style.css, as the policy lets no script add styles
    assert "unsafe" not in get(served.url).headers["content-security-policy"]
    if shot := os.environ.get("VIX_SHOT"):
        window.screenshot(path=shot, full_page=True)

    boxes = window.locator("#models input")
    assert [box.is_checked() for box in boxes.all()] == [True, False]  # the best one
    assert window.locator("#draw-help").inner_text().startswith("Or draw one of: T-shirt/top, Trouser")
    boxes.nth(1).check()
    (tmp_path / "clothes.png").write_bytes(data)
    window.set_input_files("#file", tmp_path / "clothes.png")
    window.locator("#answers .card").nth(1).wait_for()
    best = window.locator("#answers .card").first
    assert best.locator(".guess span").first.inner_text() == label
    assert " ms for this image" in best.inner_text()
    picture = best.locator(".maps img").first
    assert picture.evaluate("image => image.naturalWidth") == 168

    (tmp_path / "broken.png").write_bytes(data[:100])
    window.set_input_files("#file", tmp_path / "broken.png")
    window.locator("#try-state.error").wait_for()
    assert "is no image that can be read" in window.locator("#try-state").inner_text()
    assert window.locator("#answers .card").count() == 0
    assert all("422" in line for line in said), said  # the browser's own line about the refused upload
    said.clear()

    window.locator("#draw").scroll_into_view_if_needed()
    box = window.locator("#draw").bounding_box()
    window.mouse.move(box["x"] + 40, box["y"] + 40)
    window.mouse.down()
    window.mouse.move(box["x"] + 150, box["y"] + 160, steps=5)
    window.mouse.up()
    window.locator("#answers .card").first.wait_for()

    window.locator("#filter").press_sequentially("e")
    train(tiny(attention="hedgehog", epochs=2, fraction=0.1), served.folder / "third-seed0-0123456789ab")
    try:
        rows.nth(2).wait_for(timeout=30_000)
        assert window.evaluate("document.activeElement.id") == "filter"  # whoever types goes on typing
        assert window.locator("#filter").input_value() == "e"
        assert window.locator("#answers .card").count() > 0
        maps = window.locator("#section-where-models-look")  # drawn beside, and shown when done; it may be open from before
        maps.evaluate("details => { details.open = true; }", timeout=30_000)
        window.locator("#section-where-models-look img").first.wait_for()
        assert said == []
    finally:
        shutil.rmtree(served.folder / "third-seed0-0123456789ab")
    docs = browser.new_page()
    docs.goto(f"{served.url}/docs")
    docs.get_by_role("heading", name="POST /api/predict").wait_for()
    call = docs.locator("section", has=docs.get_by_role("heading", name="POST /api/predict"))
    call.locator("[type=file]").set_input_files(tmp_path / "clothes.png")
    call.get_by_role("button", name="Send").click()
    reply = call.locator("pre").first
    docs.wait_for_function("text => document.body.innerText.includes(text)", arg="200 OK")
    assert f'"label": "{label}"' in reply.inner_text()
    docs.get_by_role("button", name="Send").first.click()
    docs.wait_for_function("text => document.body.innerText.includes(text)", arg="GET /api/version\n200 OK")


def test_bad_flags_are_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for args, says in (
            ([str(tmp_path / "nowhere")], "is no folder of runs"),
            ([str(tmp_path), "--port", "70000"], "--port must be a whole number from 0 to 65535, not 70000"),
            ([str(tmp_path), "--port", str(taken.getsockname()[1])], "cannot be had"),
        ):
            with pytest.raises(SystemExit):
                main(["serve", *args])
            assert says in capsys.readouterr().err


def test_runs_that_change_or_go_under_a_server(served: Served, tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    deep = tmp_path / "runs" / "deep"
    shutil.copytree(served.folder, deep)
    client = TestClient(create_app([tmp_path / "runs"]), base_url="http://localhost", raise_server_exceptions=False)
    before = client.get("/api/version").json()["version"]
    name = client.get("/api/models").json()[0]["name"]
    picture = encoded(Image.new("L", (28, 28), 90))

    def ask() -> Any:
        return client.post("/api/predict", params={"model": name}, content=picture, headers={"Content-Type": "image/png"})

    first = ask().json()["answers"][0]["top"]
    (weights,) = deep.glob(f"{name}-seed*/best/model.safetensors")
    (others,) = (path for path in deep.glob("*-seed*/best") if path != weights.parent)
    for file in others.iterdir():
        shutil.copyfile(file, weights.parent / file.name)
    client.get("/api/models")
    assert ask().json()["answers"][0]["top"] != first  # the same name, trained again
    next(deep.glob("*/history.jsonl")).touch()
    assert client.get("/api/version").json()["version"] != before
    weights.write_bytes(weights.read_bytes()[:1000])
    client.get("/api/models")
    assert ask().status_code == 503
    assert "damaged or cut short" in ask().json()["detail"]
    shutil.rmtree(tmp_path / "runs")
    assert client.get("/api/models").status_code == 503
    assert "no folder here" in client.get("/api/report").json()["detail"]


def test_an_empty_folder_has_a_page_too(tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    client = TestClient(create_app([tmp_path]), base_url="http://localhost")
    assert client.get("/api/report").json()["rows"] == []
    assert client.get("/api/models").json() == []
    assert client.get("/").text.startswith("<!doctype html>")


def test_answers_come_into_view_on_a_phone(served: Served, sneaker: tuple[bytes, str], browser: Any, tmp_path: Path) -> None:
    (tmp_path / "clothes.png").write_bytes(sneaker[0])
    window = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, reduced_motion="reduce").new_page()
    window.goto(served.url)
    window.locator("#models input").first.wait_for()
    window.set_input_files("#file", tmp_path / "clothes.png")
    card = window.locator("#answers .card").first
    card.wait_for()
    window.wait_for_function("document.querySelector('#answers').getBoundingClientRect().top < innerHeight - 300")
    assert window.locator("#try-state").inner_text().startswith(f"{served.models[0]}: {sneaker[1]}, ")
    assert window.evaluate("document.documentElement.scrollWidth") <= 390
    graphics = window.locator(".chart [role=graphics-document]").first
    assert graphics.get_attribute("aria-label").startswith("Accuracy against")
    assert not window.locator(".chart").evaluate_all("charts => charts.filter((chart) => !chart.getAttribute('aria-label')).length")
    window.close()


def test_drawing_is_offered_for_small_gray_pictures_alone(served: Served, browser: Any) -> None:
    window = browser.new_page()
    window.goto(served.url)
    window.locator("#models input").first.wait_for()
    assert window.locator("#drawing").is_visible()
    window.route("**/api/models", lambda route: route.fulfill(json=[{**m, "channels": 3} for m in get(f"{served.url}/api/models").json()]))
    window.reload()
    window.locator("#models input").first.wait_for()
    assert not window.locator("#drawing").is_visible()
    assert not window.locator("#invert-label").is_visible()
    window.close()


def test_answers_are_compressed(served: Served) -> None:
    for where in ("/", "/api/report"):
        reply = get(f"{served.url}{where}", headers={"Accept-Encoding": "gzip"})
        assert reply.headers["content-encoding"] == "gzip"
        assert int(reply.headers["content-length"]) < 0.8 * len(reply.content)
        assert "content-encoding" not in get(f"{served.url}{where}", headers={"Accept-Encoding": "identity"}).headers
