"""The page of `vix serve` in a real browser."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.support.recipes import tiny
from tests.support.serving import Served, get
from vixformer.report.collect import report_command
from vixformer.serve.app import create_app
from vixformer.training.loop import train


def test_the_page_moves_while_a_run_goes_on_and_tries_models(
    served: Served, sneaker: tuple[bytes, str], browser: Any, tmp_path: Path
) -> None:
    data, label = sneaker
    window = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    said: list[str] = []
    window.on("console", lambda message: said.append(message.text))
    window.on("pageerror", lambda error: said.append(str(error)))
    window.on(
        "request",
        lambda request: (
            said.append(request.url) if not request.url.startswith((served.url, "data:", "blob:")) else None
        ),
    )
    window.goto(served.url)
    rows = window.locator("#table tbody tr")
    rows.first.wait_for()
    assert rows.count() == 2
    assert window.locator("main section").first.get_attribute("id") == "section-try-it"
    assert window.locator("#models .knows").inner_text().startswith("10 classes: T-shirt/top, Trouser, ")
    assert "To save this page: vix report " in window.locator("#foot").inner_text()
    assert " with: vix report" not in window.locator("#foot").inner_text()
    window.locator("#pareto .chart svg").wait_for()
    for summary in window.locator("summary").all():
        summary.click()
    window.locator("#chart-confusion svg").wait_for()
    assert window.locator("figure .error").count() == 0
    window.locator(".chart svg .mark-rect path").nth(60).hover(position={"x": 4, "y": 4})  # beside its number
    tip = window.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    # style.css, as the policy lets no script add styles
    assert tip.evaluate("element => getComputedStyle(element).position") == "fixed"
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
    assert "It assigns every picture to one of its 10 classes." in best.inner_text()
    assert "Rollout combines the attention of all layers." in best.inner_text()
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
        # drawn beside, and shown when done; it may be open from before
        maps = window.locator("#section-where-models-look")
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


def test_an_empty_folder_has_a_page_too(tmp_path: Path) -> None:
    client = TestClient(create_app([tmp_path]), base_url="http://localhost")
    assert client.get("/api/report").json()["rows"] == []
    assert client.get("/api/models").json() == []
    assert client.get("/").text.startswith("<!doctype html>")


def test_the_page_says_which_command_makes_it_a_file(served: Served, tmp_path: Path) -> None:
    assert get(f"{served.url}/api/report").json()["tableCommand"] == (
        f"vix report {served.folder} --margin 2 --tables csv"
    )
    app = create_app([tmp_path], command=report_command([str(tmp_path), "a b.json"], 0.5, 3))
    told = TestClient(app, base_url="http://localhost").get("/api/report").json()["tableCommand"]
    assert told == f"vix report {tmp_path} 'a b.json' --maps 3 --tables csv"


def test_answers_come_into_view_on_a_phone(
    served: Served, sneaker: tuple[bytes, str], browser: Any, tmp_path: Path
) -> None:
    (tmp_path / "clothes.png").write_bytes(sneaker[0])
    window = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, reduced_motion="reduce"
    ).new_page()
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
    assert not window.locator(".chart").evaluate_all(
        "charts => charts.filter((chart) => !chart.getAttribute('aria-label')).length"
    )
    window.close()


def test_drawing_is_offered_for_small_gray_pictures_alone(served: Served, browser: Any) -> None:
    window = browser.new_page()
    window.goto(served.url)
    window.locator("#models input").first.wait_for()
    assert window.locator("#drawing").is_visible()
    window.route(
        "**/api/models",
        lambda route: route.fulfill(json=[{**m, "channels": 3} for m in get(f"{served.url}/api/models").json()]),
    )
    window.reload()
    window.locator("#models input").first.wait_for()
    assert not window.locator("#drawing").is_visible()
    assert not window.locator("#invert-label").is_visible()
    window.close()
