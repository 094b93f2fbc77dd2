"""`vix finetune`: trained weights, a new classifier, a folder of images."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import vixformer as vix
from tests.support.datasets import CLASSES, TEST_PER_CLASS, write_photos
from tests.support.kernels import empty_cache
from tests.support.recipes import tiny
from vixformer.cli import main
from vixformer.conversion.run import finetuned_recipe
from vixformer.conversion.start import _taken, start
from vixformer.experiments.budget import Probe
from vixformer.results.predictor import Predictor
from vixformer.training.parts import load_parts

PRETRAINED = Path(__file__).parents[2] / "pretrained" / "fashion-mnist"
QUICK = ("--train.epochs", "1", "--train.no-measure")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clothes of three classes, in folders of classes alone."""
    folder = tmp_path_factory.mktemp("own")
    write_photos(folder / "both")
    shutil.copytree(folder / "both" / "train", folder / "photos")
    return folder / "photos"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", empty_cache(tmp_path / "cache"))


def finetuned(out: Path) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    (folder,) = (path.parent for path in out.glob("*/summary.json"))
    return folder, json.loads((folder / "summary.json").read_text()), json.loads((folder / "recipe.json").read_text())


@pytest.mark.usefixtures("cached")
def test_a_few_images_are_enough(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["finetune", str(PRETRAINED), "--data", str(photos), "--train.no-measure", "--out", str(tmp_path / "runs")])
    folder, summary, recipe = finetuned(tmp_path / "runs")
    assert folder.name.startswith("fashion-mnist-on-photos-seed0-")
    assert summary["test_images"] == CLASSES * TEST_PER_CLASS  # a fifth of 60 a class
    assert summary["test_top1"] > 85
    assert (recipe["data"]["resize"], recipe["data"]["gray"], recipe["train"]["weights"]) == (28, True, str(PRETRAINED))
    out, err = capsys.readouterr()
    said = out + err
    for words in (
        "36 of 180 images",
        "--train.epochs",
        f"test top-1 {summary['test_top1']:.2f} %",
        f"Next: vix predict {folder} IMAGE",
    ):
        assert words in said, words
    predictor = Predictor.load(folder)
    assert predictor.preprocessing.classes == ("class-0", "class-1", "class-2")
    assert predictor.preprocessing.mean == Predictor.load(PRETRAINED).preprocessing.mean
    main(["finetune", str(PRETRAINED), "--data", str(photos), "--train.no-measure", "--out", str(tmp_path / "runs")])
    assert "is finished" in capsys.readouterr().out


@pytest.mark.usefixtures("cached")
def test_other_attention_is_converted_and_not_begun_anew(photos: Path) -> None:
    model = vix.from_pretrained(PRETRAINED / "best")
    recipe = finetuned_recipe(PRETRAINED, model, photos, "hedgehog")
    parts = load_parts(recipe, torch.device("cpu"), recipe.data.source().whole())
    images, _ = next(iter(parts.test.plain()))

    def likeness(made: Any) -> float:
        with torch.no_grad():
            before, after = (m.eval().pool(m.forward_features(images)) for m in (model, made))
        return float(torch.nn.functional.cosine_similarity(before, after).mean())

    begun = start(recipe.build(parts.test.images), model, recipe, parts.train, lambda _: {}, lambda *_: None, None)
    assert begun.note is not None
    assert begun.note.endswith("converted to hedgehog, with a new classifier")
    assert begun.model.head.out_features == CLASSES
    anew = recipe.build(parts.test.images)
    _taken(anew, model, recipe)
    assert likeness(begun.model) > likeness(anew) + 0.02, (likeness(begun.model), likeness(anew))


@pytest.mark.usefixtures("cached")
def test_attention_budget_and_options(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vix.train(tiny(epochs=1), tmp_path / "parent")
    words = ["--attention", "nystrom(landmarks=4)", "--budget", "30s", "--train.lr", "1e-3", "--train.no-measure"]
    main(["finetune", str(tmp_path / "parent"), "--data", str(photos), *words, "--out", str(tmp_path / "runs")])
    folder, summary, recipe = finetuned(tmp_path / "runs")
    assert folder.name.startswith("parent-on-photos-to-nystrom-landmarks-4-seed0-")
    assert summary["attention"] == "nystrom(landmarks=4)"
    assert recipe["train"]["lr"] == 1e-3
    assert f"Training {recipe['train']['epochs']} epoch" in capsys.readouterr().out


@pytest.mark.usefixtures("cached")
def test_at_a_higher_resolution_than_before(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes: dict[str, Any] = dict(img_size=16, patch_size=8, embed_dim=16, depth=2, num_heads=2, in_chans=3)
    model = vix.create_model("vit", num_classes=2, **sizes)
    model.save_pretrained(tmp_path / "small")
    vix.Preprocessing.for_model(model, ("a", "b")).save(tmp_path / "small")
    words = ("--data.resize", "40", "--train.checkpoint", *QUICK, "--out", str(tmp_path / "runs"))
    main(["finetune", str(tmp_path / "small"), "--data", str(photos), *words])
    folder, _, _ = finetuned(tmp_path / "runs")
    found = vix.from_pretrained(folder / "best")
    assert found.img_size == (40, 40)
    assert found.state_dict()["pos.embed"].shape == (1, 26, 16)
    assert "interpolated for another number of tokens: pos.embed" in "".join(capsys.readouterr())


@pytest.mark.usefixtures("cached")
def test_a_budget_holds_even_if_the_machine_was_thought_faster(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Probe, "seconds", lambda *_: 0.0)  # everything seems to fit
    words = ["--budget", "2s", "--train.epochs", "500", "--out", str(tmp_path / "runs")]
    main(["finetune", str(PRETRAINED), "--data", str(photos), *words])
    _, summary, recipe = finetuned(tmp_path / "runs")
    assert (recipe["train"]["epochs"], recipe["train"]["measure"]) == (500, False)
    assert summary["stopped_early"]
    assert summary["epochs"] < 500


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--data", "nowhere"], "there is no folder .*nowhere"),
        (["--data", ".", "--model.depth", "3"], "leave out --model.depth"),
        (["--data", ".", "--data.gray"], "leave out --data.gray"),
        (["--data", ".", "--attention", "fourier"], "cannot go from"),
        ([], "--data"),
        (["photos"], "got photos as well: name the folder of your images with --data"),
    ],
)
@pytest.mark.usefixtures("cached")
def test_what_is_wrong_is_one_sentence(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["finetune", str(PRETRAINED), *words, "--out", str(tmp_path / "runs")])
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(says, line), line
    assert not (tmp_path / "runs").exists()


def test_no_budget_under_torchrun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit, match="2"):
        main(["finetune", str(PRETRAINED), "--data", str(tmp_path), "--budget", "60s"])
    assert "leave --budget out, or torchrun" in capsys.readouterr().err


def test_a_table_of_images_will_do(photos: Path, cached: None, tmp_path: Path) -> None:
    table = photos.parent / "clothes.csv"
    files = sorted(photos.glob("*/*.png"))
    table.write_text("path,label\n" + "".join(f"{f.relative_to(photos.parent)},{f.parent.name}\n" for f in files))
    main(["finetune", str(PRETRAINED), "--data", str(table), *QUICK, "--out", str(tmp_path)])
    (folder,) = tmp_path.glob("fashion-mnist-on-clothes-seed0-*")
    assert json.loads((folder / "recipe.json").read_text())["data"]["name"] == "table"
    assert "names no test images" in json.loads((folder / "summary.json").read_text())["split_off"]
