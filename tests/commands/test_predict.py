"""`vix predict`, as a person meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import vixformer as vix
from tests.support.command import fails, run
from vixformer.cli import main


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A model that was saved in Python, as README.md does."""
    model = vix.create_model("vit", img_size=16, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=2)
    model.save_pretrained(tmp_path / "mine")
    Image.new("RGB", (20, 20), "red").save(tmp_path / "red.png")
    return tmp_path / "mine"


def test_a_model_of_ones_own_is_used_once_its_classes_are_written(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(mine.parent / "red.png")
    assert f'for_model(model, classes).save("{mine}")' in fails(capsys, "predict", str(mine), picture)
    vix.Preprocessing.for_model(vix.from_pretrained(mine), ["cat", "dog"]).save(mine)
    out = run(capsys, "predict", str(mine), picture)
    assert "cat" in out
    assert "dog" in out


def test_show_takes_the_folder_of_a_model(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "show", str(mine))
    assert f"{mine}: softmax" in out
    assert out == run(
        capsys,
        "show",
        "vit",
        *[
            "--img-size",
            "16",
            "--patch-size",
            "8",
            "--embed-dim",
            "16",
            "--depth",
            "2",
            "--num-heads",
            "2",
            "--num-classes",
            "2",
        ],
    ).replace("vit: ", f"{mine}: ")
    assert "no model: give a run folder" in fails(capsys, "show", str(mine.parent))


def test_a_colored_photograph_for_a_model_of_gray_images_gets_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = vix.create_model(
        "vit", in_chans=1, img_size=16, patch_size=8, embed_dim=16, depth=1, num_heads=2, num_classes=2
    )
    model.save_pretrained(tmp_path)
    vix.Preprocessing.for_model(model, ["0", "1"]).save(tmp_path)
    for color, hint in (((200, 30, 60), True), ((250, 240, 220), False), ((90, 90, 90), False)):
        Image.new("RGB", (20, 20), color).save(tmp_path / "x.png")
        main(["predict", str(tmp_path), str(tmp_path / "x.png")])
        hinted = "1 image is colored, and the model was trained on gray images" in capsys.readouterr().err
        assert hinted is hint, color
