"""`vix bench` and `vix advise`, as a person meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import fails, run

QUICK = ("--seconds", "0.01", "--dim", "32", "--heads", "2", "--no-memory")


def test_attention(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figures, chart = tmp_path / "figures.json", tmp_path / "chart.svg"
    args = (
        "bench",
        "attention",
        "softmax",
        "hedgehog",
        "--tokens",
        "8",
        "16",
        *QUICK,
        "--json",
        str(figures),
        "--chart",
        str(chart),
    )
    out = run(capsys, *args)
    assert all(word in out for word in ("hedgehog", "x exact", "of GEMM", "images/s", "kept", " thread"))
    found = json.loads(figures.read_text())
    assert [(r["attention"], r["tokens"]) for r in found["rows"]] == [
        ("softmax", 8),
        ("hedgehog", 8),
        ("softmax", 16),
        ("hedgehog", 16),
    ]
    assert found["machine"]["torch"]
    assert found["sizes"]["dim"] == 32
    assert "<svg" in chart.read_text()


def test_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chart = tmp_path / "chart.html"
    args = (
        "--models",
        "vit",
        "pit",
        "--img-size",
        "16",
        "--batch",
        "2",
        "--train",
        "--seconds",
        "0.01",
        "--no-memory",
        "--chart",
        str(chart),
    )
    out = run(capsys, "bench", "model", "softmax", *args)
    assert "pit" in out
    assert "a training step" in out
    assert "vega" in chart.read_text()


def test_crossover(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vixformer.measure import crossover

    monkeypatch.setattr(crossover, "MOST", 64)  # so that it takes a second
    figures, chart = tmp_path / "figures.json", tmp_path / "chart.json"
    quick = [word for word in QUICK if word != "--no-memory"]
    out = run(
        capsys, "bench", "crossover", "fourier", *quick, "--patch", "8", "--json", str(figures), "--chart", str(chart)
    )
    assert "image, patches of 8" in out
    assert "torch's scaled_dot_product_attention" in out
    (found,) = json.loads(figures.read_text())["crossings"]
    assert found["probes"][0]["tokens"] == 16
    assert "Against nystrom, inference" in run(capsys, "bench", "crossover", "fourier", *quick, "--against", "nystrom")
    drawn = json.loads(chart.read_text())["data"]["values"]
    shown = {(row["attention"], row["tokens"]): row["microseconds a token"] for row in drawn}
    assert shown["fourier", 16] == found["probes"][0]["this_us"]
    assert shown["torch's scaled_dot_product_attention", 16] == found["probes"][0]["exact_us"]


def test_advise(capsys: pytest.CaptureFixture[str]) -> None:
    args = (
        "advise",
        "--image",
        "32",
        "--patch",
        "8",
        "--dim",
        "32",
        "--depth",
        "2",
        "--heads",
        "2",
        "--batch",
        "2",
        "--seconds",
        "0.1",
    )
    out = run(capsys, *args, "--infer")
    assert 'Use --attention "' in out
    found = json.loads(run(capsys, *args, "--train", "--json"))
    assert found["tokens"] == 17
    assert found["question"]["train"]
    assert "A training step of 2 images with 17 tokens takes" in found["reason"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("bench",), 'bench needs one of the words attention, model, crossover: write "vix bench attention"'),
        (("bench", "attention", "performr"), 'unknown attention "performr"'),
        (
            ("bench", "attention", "softmax", "--chart", "x.gif"),
            "a chart ends in .svg, .png, .pdf, .html, .json, not x.gif",
        ),
        (("bench", "attention", "softmax", "--tokens", "many"), "--tokens"),
        (
            ("bench", "attention", "softmax", "--dim", "30", "--heads", "4"),
            "num_heads must divide dim: 4 does not divide 30",
        ),
        (("bench", "model", "softmax", "--models", "vitt"), 'unknown model "vitt"'),
        (("bench", "attention", "softmax", "--device", "nowhere"), "device nowhere cannot be used here"),
        (("bench", "attention", "softmax", "--json", "nowhere/x.json"), "there is no folder nowhere"),
        (("advise", "--dim", "30", "--heads", "7"), "heads must divide dim: 7 does not divide 30"),
        (("advise", "--budget", "x"), "--budget"),
    ],
)
def test_sentences(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], message: str) -> None:
    assert message in fails(capsys, *args)
