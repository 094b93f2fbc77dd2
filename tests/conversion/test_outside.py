"""`vix convert` of a model of transformers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vixformer as vix
from tests.support.command import run
from tests.support.transformers import SIZES

transformers = pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = transformers.Dinov2Config(**SIZES, num_labels=10, num_channels=1)
    transformers.Dinov2ForImageClassification(config).save_pretrained(tmp_path / "dino")
    return tmp_path / "dino"


def test_layers_are_chosen_and_the_model_stays_theirs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    data = ["--data", "fashion-mini", "--data.fraction", "0.1", "--distill", "2"]
    said = run(capsys, "convert", f"hf:{folder}", "--choose", "1", *data, "--out", str(out))
    assert "Layer after layer, the cheapest first" in said
    assert f'The new model is in {out}: vix.load_patched("{out}") loads it.' in re.sub(r"\s+", " ", said)
    model = vix.load_patched(out)
    assert type(model) is transformers.Dinov2ForImageClassification
    kinds = sorted(type(m.core).__name__ for m in model.modules() if hasattr(m, "core"))
    assert kinds == ["Hedgehog", "Softmax"]


def test_without_images(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "convert", f"hf:{folder}", "--attention", "cosine", "--out", str(tmp_path / "out"))
    assert "No --data given: nothing was fitted or measured" in re.sub(r"\s+", " ", said)
    capsys.readouterr()
    for words, message in (
        (["--attention", "cosine", "--out", str(tmp_path / "out")], "is there already: give another folder with --out"),
        (["--attention", "cosine", "--finetune", "1"], "--finetune is for runs of vix train"),
        (["--attention", "cosine", "--distill", "1", "--out", str(tmp_path / "b")], "need images: give --data"),
        (
            ["--attention", "cosine", "--data", "synthetic", "--data.val-fraction", "0", "--out", str(tmp_path / "b")],
            "synthetic has 3 color channels and the model takes 1",
        ),
        (["--out", str(tmp_path / "b")], "to which attention? give --attention"),
    ):
        with pytest.raises(SystemExit):
            run(capsys, "convert", f"hf:{folder}", *words)
        assert message in capsys.readouterr().err
        assert not (tmp_path / "b").exists()
