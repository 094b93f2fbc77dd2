"""The API of `vix serve` with good and bad requests, many at a time."""

from __future__ import annotations

import io
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.support.pictures import bomb, encoded
from tests.support.serving import Served, get
from vixformer.serve.app import create_app


def test_the_live_page_has_verdicts(served: Served) -> None:
    report = get(f"{served.url}/api/report").json()
    ((line,),) = report["sentences"].values()
    assert line.startswith("Open: whether relu differs from exact: ")  # one seed decides nothing
    at = [column["name"] for column in report["columns"]].index("verdict")
    assert sorted(row["cells"][at]["show"] for row in report["rows"]) == ["", "open"]
    assert all("Verdicts are against a margin of 2 points" in told for told in report["explained"].values())
    (conclusion,) = report["conclusions"]
    assert conclusion["verdict"] == "open"
    assert conclusion["why"] == "Open: one seed decides nothing."


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
def test_bad_requests_get_a_sentence(
    served: Served, data: bytes, kind: str, query: dict[str, Any], status: int, says: str
) -> None:
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
    assert get(f"{served.url}/openapi.json").json()["paths"].keys() == {
        "/api/version",
        "/api/report",
        "/api/models",
        "/api/predict",
    }


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
        lambda size, mode, color: encoded(Image.new(mode, size, color)),
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


def test_runs_that_change_or_go_under_a_server(served: Served, tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    deep = tmp_path / "runs" / "deep"
    shutil.copytree(served.folder, deep)
    client = TestClient(create_app([tmp_path / "runs"]), base_url="http://localhost", raise_server_exceptions=False)
    before = client.get("/api/version").json()["version"]
    name = client.get("/api/models").json()[0]["name"]
    picture = encoded(Image.new("L", (28, 28), 90))

    def ask() -> Any:
        return client.post(
            "/api/predict", params={"model": name}, content=picture, headers={"Content-Type": "image/png"}
        )

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


def test_answers_are_compressed(served: Served) -> None:
    for where in ("/", "/api/report"):
        reply = get(f"{served.url}{where}", headers={"Accept-Encoding": "gzip"})
        assert reply.headers["content-encoding"] == "gzip"
        assert int(reply.headers["content-length"]) < 0.8 * len(reply.content)
        assert "content-encoding" not in get(f"{served.url}{where}", headers={"Accept-Encoding": "identity"}).headers
