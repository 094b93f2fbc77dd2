"""The way from a picture to a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.support.recipes import tiny
from vixformer import create_model
from vixformer.data.preprocess import Preprocessing
from vixformer.training.loop import train


def test_preprocessing_is_kept_with_the_model_and_gives_the_batches_of_training(tmp_path: Path) -> None:
    from vixformer.training.parts import load_parts

    recipe = tiny(epochs=1)
    folder = tmp_path / "run"
    train(recipe, folder)
    kept = Preprocessing.load(folder / "best")
    parts = load_parts(recipe, torch.device("cpu"))
    assert kept.classes == parts.classes
    images, _ = next(parts.test.plain())
    stored = parts.test.images.pixels[parts.test.images.rows[:4]]
    pictures = [Image.fromarray(p[0].numpy() if len(p) == 1 else p.permute(1, 2, 0).numpy()) for p in stored]
    torch.testing.assert_close(kept(pictures), images[:4])
    large = [picture.resize((90, 70), Image.Resampling.NEAREST) for picture in pictures]
    assert kept(large).shape == images[:4].shape

    (folder / "best/preprocessing.json").write_text('{"classes": 3}')
    with pytest.raises(ValueError, match=r"preprocessing.json: classes"):
        Preprocessing.load(folder / "best")
    (folder / "best/preprocessing.json").unlink()
    with pytest.raises(
        ValueError, match=r"which classes and images the model knows: .*Preprocessing.for_model\(model, classes\)"
    ):
        Preprocessing.load(folder / "best")


def test_a_model_that_no_run_trained_gets_its_classes(tmp_path: Path) -> None:
    model = create_model("vit", img_size=(16, 24), patch_size=8, embed_dim=16, depth=1, num_heads=2, num_classes=2)
    made = Preprocessing.for_model(model, ["cat", "dog"], mean=[0.5, 0.4, 0.3], std=[0.2, 0.2, 0.2], stored=(32, 48))
    made.save(tmp_path)
    found = Preprocessing.load(str(tmp_path))
    assert found == made
    assert (found.classes, found.channels, found.stored, found.size) == (("cat", "dog"), 3, (32, 48), (16, 24))
    white = Preprocessing.for_model(model, ["cat", "dog"])([Image.new("RGB", (5, 5), "white")])
    assert white.shape == (1, 3, 16, 24)
    assert (white == 1).all()
    with pytest.raises(ValueError, match="classes must name the 2 outputs of the model, not 3"):
        Preprocessing.for_model(model, ["cat", "dog", "horse"])
    with pytest.raises(ValueError, match="mean should have a number for each of 3 channels, not 1"):
        Preprocessing.for_model(model, ["cat", "dog"], mean=[0.5])
    with pytest.raises(ValueError, match="std must be greater than"):
        Preprocessing.for_model(model, ["cat", "dog"], std=[0.0, 1.0, 1.0])
