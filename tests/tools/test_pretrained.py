"""The trained models that come with the source: each says what its card says, and works from the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from vixformer.cli import main
from vixformer.data.mini import FashionMini
from vixformer.export.check import export
from vixformer.measure.accuracy import evaluate
from vixformer.report.pictures import image_of
from vixformer.results.predictor import Predictor
from vixformer.results.runs import read_run
from vixformer.training.parts import load_parts

FOLDER = Path(__file__).parents[2] / "pretrained"
MODELS = sorted(path.parent for path in FOLDER.glob("*/summary.json"))


def test_they_are_small_enough_for_a_repository() -> None:
    assert {path.name for path in MODELS} >= {"mnist", "fashion-mnist"}
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 6e6


@pytest.mark.parametrize("folder", MODELS, ids=lambda path: path.name)
def test_a_card_has_the_numbers_of_the_run(folder: Path) -> None:
    run, text = read_run(folder), (folder / "README.md").read_text()
    assert run.summary is not None
    assert f"{run.summary['test_top1']:.2f} %" in text
    assert "performer" in run.summary["attention"] or "lens" in run.summary["attention"]
    assert f"vix predict pretrained/{folder.name} picture.jpg" in text


def test_clothes_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = FashionMini(Path()).read("test")
    predictor = Predictor.load(FOLDER / "fashion-mnist")
    logits = predictor.logits(predictor.preprocessing.batch(images.pixels[images.rows[:500]]))
    assert float((logits.argmax(-1) == images.labels[:500]).float().mean()) > 0.9
    image_of(images.pixels[images.rows[0]]).resize((300, 300)).save(tmp_path / "one.png")
    main(["predict", str(FOLDER / "fashion-mnist"), str(tmp_path / "one.png"), "--json"])
    (guess, *_) = json.loads(capsys.readouterr().out)["top"]
    assert guess["label"] == predictor.preprocessing.classes[int(images.labels[0])]


def test_eight_bits_cost_at_most_a_point(tmp_path: Path) -> None:
    images = FashionMini(Path()).read("test")
    found = export(Predictor.load(FOLDER / "fashion-mnist"), ["onnx", "int8"], tmp_path, images, True, 1, len(images))
    top1 = {e.form: e.top1 or 0.0 for e in found}
    assert found[0].tested == len(images)
    assert next(e for e in found if e.form == "onnx").agrees
    assert top1["onnx"] == top1["eager"]
    assert top1["int8"] >= top1["eager"] - 1.0


@pytest.mark.skipif("VIX_DATA" not in os.environ, reason="needs the real data sets: set VIX_DATA")
@pytest.mark.parametrize("folder", MODELS, ids=lambda path: path.name)
def test_it_reaches_what_its_card_says(folder: Path) -> None:
    run = read_run(folder)
    assert run.summary is not None
    test = load_parts(run.recipe, torch.device("cpu")).test
    assert evaluate(Predictor.load(folder).model, test).top1 == pytest.approx(run.summary["test_top1"], abs=0.05)
